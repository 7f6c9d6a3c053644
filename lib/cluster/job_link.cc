#include "cluster/job_link.h"

#include <fmt/core.h>

#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "base/error.h"

namespace rbln {
namespace {

// What a message is, in its first byte.
enum class Kind : uint8_t { kLine, kEnd, kAnswer, kBusy, kStats };

// How often a replica that works says so.
constexpr std::chrono::seconds kBusyInterval{1};

class Writer {
 public:
  explicit Writer(Kind kind) { Put(kind); }
  template <typename T>
  void Put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
  }
  // At the end: its size is what is left.
  void PutText(const std::string& text) {
    const size_t at = bytes_.size();
    bytes_.resize(at + text.size());
    std::memcpy(bytes_.data() + at, text.data(), text.size());
  }
  std::vector<std::byte> Take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}
  template <typename T>
  T Get() {
    static_assert(std::is_trivially_copyable_v<T>);
    if (left_.size() < sizeof(T)) {
      throw std::logic_error("a message was cut short");
    }
    T value;
    std::memcpy(&value, left_.data(), sizeof(T));
    left_ = left_.subspan(sizeof(T));
    return value;
  }
  std::string GetText() {
    return {reinterpret_cast<const char*>(left_.data()), left_.size()};
  }

 private:
  std::span<const std::byte> left_;
};

// The numbers of EngineStats beside those of its programs.
template <typename Stats, typename F>
void EachNumber(Stats& stats, F&& f) {
  f(stats.prefill_tokens);
  f(stats.decode_tokens);
  f(stats.prefill_seconds);
  f(stats.decode_seconds);
  f(stats.sample_seconds);
  f(stats.prompt_tokens);
  f(stats.completion_tokens);
  f(stats.cached_tokens);
  f(stats.disk_tokens);
  f(stats.preemptions);
  f(stats.peak_blocks);
  f(stats.first_token);
  f(stats.per_token);
}

void PutStats(Writer& writer, const EngineStats& stats) {
  EachNumber(stats, [&](const auto& value) { writer.Put(value); });
  writer.Put(static_cast<int32_t>(stats.programs.size()));
  for (const auto& [rows, program] : stats.programs) {
    writer.Put(static_cast<int32_t>(rows));
    writer.Put(program);
  }
}

EngineStats GetStats(Reader& reader) {
  EngineStats stats;
  EachNumber(stats, [&](auto& value) {
    value = reader.Get<std::remove_reference_t<decltype(value)>>();
  });
  for (int32_t left = reader.Get<int32_t>(); left > 0; --left) {
    const int32_t rows = reader.Get<int32_t>();
    stats.programs[rows] = reader.Get<ProgramStats>();
  }
  return stats;
}

}  // namespace

RemoteReplicas::RemoteReplicas(World& world, int ranks)
    : world_(world), ranks_(ranks), states_(world.size() / ranks - 1) {}

void RemoteReplicas::Give(int replica, const InputLine& line) {
  State& state = states_[replica];
  if (state.in_work++ == 0) state.heard = Clock::now();
  Writer writer(Kind::kLine);
  writer.Put(line.index);
  writer.Put(line.number);
  writer.Put(line.too_long);
  writer.PutText(line.text);
  world_.Send((replica + 1) * ranks_, Tag::kLine, writer.Take());
}

bool RemoteReplicas::TakeOne(std::vector<Answer>* answers, EngineStats* stats) {
  const std::optional<World::Packet> packet = world_.Poll(-1, Tag::kAnswer);
  if (!packet) return false;
  State& state = states_[packet->from / ranks_ - 1];
  state.heard = Clock::now();
  Reader reader(packet->bytes);
  switch (reader.Get<Kind>()) {
    case Kind::kAnswer: {
      --state.in_work;
      Answer answer;
      answer.index = reader.Get<int64_t>();
      answer.error = reader.Get<bool>();
      answer.text = reader.GetText();
      if (answers != nullptr) answers->push_back(std::move(answer));
      break;
    }
    case Kind::kStats:
      state.finished = true;
      if (stats != nullptr) stats->Add(GetStats(reader));
      break;
    default:  // it is alive
      break;
  }
  return true;
}

void RemoteReplicas::CheckHeard() {
  for (size_t i = 0; i < states_.size(); ++i) {
    const std::chrono::duration<double> silent =
        Clock::now() - states_[i].heard;
    // Longer than it waits for another rank, which it can name.
    if (states_[i].in_work == 0 || silent.count() < 2 * world_.patience() + 1) {
      continue;
    }
    world_.Abort(
        static_cast<int>(ErrorKind::kResource),
        fmt::format("{} has said nothing for {:.0f} seconds with {} lines in "
                    "work; it is dead, hangs, or cannot be reached",
                    world_.Name(static_cast<int>(i + 1) * ranks_),
                    silent.count(), states_[i].in_work));
  }
}

void RemoteReplicas::Take(std::vector<Answer>& answers) {
  while (TakeOne(&answers, nullptr)) {
  }
  CheckHeard();
}

void RemoteReplicas::Finish(EngineStats* stats) {
  for (size_t i = 0; i < states_.size(); ++i) {
    world_.Send(static_cast<int>(i + 1) * ranks_, Tag::kLine,
                Writer(Kind::kEnd).Take());
    states_[i].in_work = 1;  // the figures
    states_[i].heard = Clock::now();
  }
  const auto all = [&] {
    while (TakeOne(nullptr, stats)) {
    }
    for (State& state : states_) {
      if (!state.finished) return false;
      state.in_work = 0;
    }
    return true;
  };
  while (!world_.WaitFor(all, 1)) CheckHeard();
}

std::optional<InputLine> RemoteCoordinator::Next(bool wait) {
  if (const Clock::time_point now = Clock::now(); now - said_ > kBusyInterval) {
    said_ = now;
    world_.Send(0, Tag::kAnswer, Writer(Kind::kBusy).Take());
  }
  std::optional<World::Packet> packet;
  const auto poll = [&] {
    packet = world_.Poll(0, Tag::kLine);
    return packet.has_value();
  };
  if (!poll() && wait) world_.WaitFor(poll, 0.5);
  if (!packet) return std::nullopt;
  Reader reader(packet->bytes);
  if (reader.Get<Kind>() == Kind::kEnd) {
    ended_ = true;
    return std::nullopt;
  }
  InputLine line;
  line.index = reader.Get<int64_t>();
  line.number = reader.Get<int64_t>();
  line.too_long = reader.Get<bool>();
  line.text = reader.GetText();
  return line;
}

void RemoteCoordinator::Put(const Answer& answer) {
  Writer writer(Kind::kAnswer);
  writer.Put(answer.index);
  writer.Put(answer.error);
  writer.PutText(answer.text);
  world_.Send(0, Tag::kAnswer, writer.Take());
  said_ = Clock::now();
}

void RemoteCoordinator::Finish(const EngineStats& stats) {
  Writer writer(Kind::kStats);
  PutStats(writer, stats);
  world_.Send(0, Tag::kAnswer, writer.Take());
}

}  // namespace rbln
