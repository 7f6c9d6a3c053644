#include "compiler/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "artifact/program.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/json.h"
#include "base/region.h"
#include "base/threads.h"

namespace rbln {
namespace {

// Beyond the last-level caches of the machines this runs on.
constexpr uint64_t kMaxWorkingSet = uint64_t{128} << 20;
// What one timing reads of it: some hundred microseconds at memory's speed.
constexpr uint64_t kRunBytes = uint64_t{8} << 20;
// Multiply-adds of one timing, some milliseconds of work at most.
constexpr int64_t kRunWork = int64_t{1} << 29;
constexpr int kRepetitions = 7;
// The default is kept against what is faster by less: times are not that exact.
constexpr double kMargin = 0.97;
// Of the kernels: what others' tiles took says nothing about these. To be
// raised with every change of speed.
constexpr int kKernels = 7;

std::vector<MatmulTile> Candidates(const KernelTable& kernels, Format format,
                                   int rows, int inputs, bool paired) {
  std::vector<MatmulTile> tiles = {
      DefaultTile(kernels.isa, format, rows, inputs)};
  const auto add = [&](MatmulTile tile) {
    const bool known =
        std::any_of(tiles.begin(), tiles.end(), [&](const MatmulTile& other) {
          return other.rows == tile.rows && other.panels == tile.panels &&
                 std::min(other.inputs, inputs) == tile.inputs;
        });
    if (!known) tiles.push_back(tile);
  };
  if (rows > 16) {
    constexpr std::pair<int, int> kRowsAndPanels[] = {{8, 1},  {5, 2}, {6, 2},
                                                      {12, 2}, {3, 4}, {6, 4}};
    for (const auto& [tile_rows, panels] : kRowsAndPanels) {
      for (const int block : {512, 1024, 2048}) {
        add({tile_rows, panels, std::min(block, inputs)});
      }
    }
    return tiles;
  }
  for (const int panels : {1, 2, 4}) {
    // All rows at once, or in two or three equal parts.
    for (const int parts : {1, 2, 3}) {
      const int tile_rows = (rows + parts - 1) / parts;
      if (tile_rows * panels <= 24 && tile_rows <= 12) {
        add({tile_rows, panels, inputs});
      }
    }
  }
  return tiles;
}

}  // namespace

// The memory that is measured on, and the threads.
class Tuner::Bench {
 public:
  Bench(const KernelTable& kernels, int threads, uint64_t working_set)
      : kernels_(kernels),
        team_(threads, /*pin=*/true),
        weights_(std::max(working_set, kRunBytes), "measuring tiles") {
    // Bytes that are small numbers in every format, but not all the same.
    uint64_t state = 0x9e3779b97f4a7c15u;
    for (uint64_t i = 0; i < weights_.size(); i += sizeof state) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      const uint64_t bytes =
          (state & 0x2f2f2f2f2f2f2f2fu) | 0x1010101010101010u;
      std::memcpy(weights_.data() + i, &bytes, sizeof bytes);
    }
  }

  double Microseconds(Format format, int rows, int inputs, bool paired,
                      const MatmulTile& tile) {
    const uint64_t panel_bytes = PanelBytes(format, inputs);
    const uint64_t x_row = RowBytes(MatmulInput(format), inputs);
    int64_t panels = std::min<int64_t>(
        kRunBytes / panel_bytes, kRunWork / (int64_t{rows} * inputs * kPanel));
    panels = std::max<int64_t>(panels, 4 * team_.size()) / 2 * 2;
    const uint64_t out_row =
        RowBytes(Format::Float32, static_cast<int>(panels) * kPanel);
    Reserve(rows * (x_row + out_row) +
            team_.size() * uint64_t(rows) * kMaxTilePanels * kPanel * 4);
    if (at_ + panels * panel_bytes > weights_.size()) at_ = 0;
    if (panels * panel_bytes > weights_.size()) return 0;  // one panel is vast

    MatmulArgs args{};
    args.weights = weights_.data() + at_;
    at_ = AlignUp(at_ + panels * panel_bytes, kAlignment);
    args.panel_bytes = panel_bytes;
    args.inputs = inputs;
    args.x = rows_.data();
    args.x_row_bytes = x_row;
    args.rows = rows;
    args.out = rows_.data() + rows * x_row;
    args.out_row_bytes = out_row;
    args.out_format = Format::Float32;
    args.epilogue = paired ? Epilogue::SiluGate : Epilogue::None;
    args.tile = tile;
    float* scratch = reinterpret_cast<float*>(args.out + rows * out_row);
    const auto matmul = kernels_.matmul[static_cast<int>(format)];
    const auto start = std::chrono::steady_clock::now();
    team_.Run([&](int thread) {
      MatmulArgs part = args;
      const Range pairs = Share(panels / 2, thread, team_.size());
      part.panel_begin = pairs.begin * 2;
      part.panel_end = pairs.end * 2;
      part.scratch = scratch + int64_t{thread} * rows * kMaxTilePanels * kPanel;
      matmul(part);
    });
    return std::chrono::duration<double, std::micro>(
               std::chrono::steady_clock::now() - start)
        .count();
  }

 private:
  void Reserve(uint64_t bytes) {
    if (rows_.size() >= bytes) return;
    rows_ = Region(bytes, "measuring tiles");
    // Numbers in every format. Memory that nobody has written is one page at
    // many addresses, which caches do not take for many.
    std::memset(rows_.data(), 0x3c, rows_.size());
  }

  const KernelTable& kernels_;
  ThreadTeam team_;
  Region weights_;
  Region rows_;
  uint64_t at_ = 0;  // where the next run begins to read
};

Tuner::Tuner(const KernelTable& kernels, int threads, uint64_t working_set,
             std::string path)
    : kernels_(kernels),
      threads_(threads),
      working_set_(std::min(working_set, kMaxWorkingSet)),
      path_(std::move(path)),
      machine_(fmt::format("{}, {} threads", CpuModel(), threads)) {
  try {
    if (path_.empty() || !FileExists(path_)) return;
    const Json file = ReadJsonFile(path_, ErrorKind::kResource);
    for (const auto& [key, tiles] : file.at(machine_).items()) {
      std::vector<MeasuredTile> measured;
      for (const Json& tile : tiles) {
        measured.push_back(
            {{tile.at("rows"), tile.at("panels"), tile.at("inputs")},
             tile.at("microseconds")});
      }
      if (!measured.empty()) measured_[key] = std::move(measured);
    }
  } catch (const std::exception&) {
    measured_.clear();
  }
}

Tuner::~Tuner() = default;

const std::vector<MeasuredTile>& Tuner::Choose(Format format, int rows,
                                               int inputs, bool paired) {
  // The working set counts by powers of two: only which cache it fits matters.
  const std::string key = fmt::format(
      "{} {} kernels {}: {} rows {} inputs{} of {} MiB", kernels_.isa,
      FormatName(format), kKernels, rows, inputs, paired ? " paired" : "",
      std::bit_ceil(std::max<uint64_t>(1, working_set_ >> 20)));
  auto found = measured_.find(key);
  if (found == measured_.end()) {
    found = measured_.emplace(key, Measure(format, rows, inputs, paired)).first;
    changed_ = true;
  }
  return found->second;
}

std::vector<MeasuredTile> Tuner::Measure(Format format, int rows, int inputs,
                                         bool paired) {
  if (!bench_) {
    bench_ = std::make_unique<Bench>(kernels_, threads_, working_set_);
  }
  const std::vector<MatmulTile> tiles =
      Candidates(kernels_, format, rows, inputs, paired);
  std::vector<std::vector<double>> times(tiles.size());
  // In turn, so that a slow moment falls on all; the first round warms up.
  for (int repetition = -1; repetition < kRepetitions; ++repetition) {
    for (size_t i = 0; i < tiles.size(); ++i) {
      const double time =
          bench_->Microseconds(format, rows, inputs, paired, tiles[i]);
      if (repetition >= 0) times[i].push_back(time);
    }
  }
  std::vector<MeasuredTile> measured;
  for (size_t i = 0; i < tiles.size(); ++i) {
    std::nth_element(times[i].begin(), times[i].begin() + kRepetitions / 2,
                     times[i].end());
    // To a tenth: what is recorded need not look more exact than it is.
    measured.push_back(
        {tiles[i], std::round(times[i][kRepetitions / 2] * 10) / 10});
  }
  const double stay = measured[0].microseconds * kMargin;
  std::stable_sort(measured.begin(), measured.end(),
                   [](const MeasuredTile& a, const MeasuredTile& b) {
                     return a.microseconds < b.microseconds;
                   });
  if (measured[0].microseconds > stay) {
    const auto first = std::find_if(measured.begin(), measured.end(),
                                    [&](const MeasuredTile& m) {
                                      return m.tile.rows == tiles[0].rows &&
                                             m.tile.panels == tiles[0].panels &&
                                             m.tile.inputs == tiles[0].inputs;
                                    });
    std::rotate(measured.begin(), first, first + 1);
  }
  return measured;
}

void Tuner::Save() const {
  if (!changed_ || path_.empty()) return;
  try {
    std::filesystem::create_directories(
        std::filesystem::path(path_).parent_path());
    Json file = Json::object();
    try {
      if (FileExists(path_)) file = ReadJsonFile(path_, ErrorKind::kResource);
      if (!file.is_object()) file = Json::object();
    } catch (const Error&) {
    }
    Json& entries = file[machine_] = Json::object();
    for (const auto& [key, tiles] : measured_) {
      for (const MeasuredTile& m : tiles) {
        entries[key].push_back({{"rows", m.tile.rows},
                                {"panels", m.tile.panels},
                                {"inputs", m.tile.inputs},
                                {"microseconds", m.microseconds}});
      }
    }
    WriteFileAtomically(path_, file.dump(1) + "\n");
  } catch (const std::exception&) {
    // Measured again next time.
  }
}

std::string Tuner::DefaultPath() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache != nullptr && *cache == '/') {
    return std::string(cache) + "/rbln-tool/tiles.json";
  }
  if (home != nullptr && *home != '\0') {
    return std::string(home) + "/.cache/rbln-tool/tiles.json";
  }
  return "";
}

}  // namespace rbln
