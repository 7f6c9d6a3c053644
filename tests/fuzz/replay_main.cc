// Runs a fuzz entry without libFuzzer: over every file named (or in a directory
// named), then over mutations of each that are the same on every run.
//   NAME_fuzz [-runs=MUTATIONS_OF_EACH] FILE_OR_DIRECTORY...
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;

// An input as it is run, so that a sanitizer's report can be run again.
constexpr char kCurrent[] = "fuzz-input.bin";
constexpr size_t kMaxBytes = size_t{1} << 20;

class Mutator {
 public:
  explicit Mutator(const std::vector<std::string>& corpus) : corpus_(corpus) {}

  std::string operator()(std::string input) {
    for (uint64_t left = 1 + Below(4); left > 0; --left) Change(&input);
    if (input.size() > kMaxBytes) input.resize(kMaxBytes);
    return input;
  }

 private:
  // The library's distributions may differ between libraries; this does not.
  uint64_t Below(uint64_t bound) { return bound == 0 ? 0 : random_() % bound; }

  void Change(std::string* input) {
    // What parsers tend to trip over.
    static const std::vector<std::string> kPieces = {"-1",
                                                     "0",
                                                     "1e999",
                                                     "18446744073709551615",
                                                     "9223372036854775808",
                                                     "2147483647",
                                                     "2147483648",
                                                     "null",
                                                     "true",
                                                     "{}",
                                                     "[]",
                                                     "\"\"",
                                                     "\"",
                                                     "\\u0000",
                                                     "\\ud800",
                                                     "\xFF",
                                                     "\xC3",
                                                     std::string(1, '\0'),
                                                     std::string(4, '\xFF'),
                                                     std::string(8, '\x7F'),
                                                     "../",
                                                     "\n",
                                                     std::string(300, '['),
                                                     std::string(300, '('),
                                                     "{%",
                                                     "{{",
                                                     "%}",
                                                     "}}"};
    const size_t at = Below(input->size() + 1);
    const size_t length = std::min<size_t>(1 + Below(Below(4) == 0 ? 256 : 8),
                                           input->size() - at);
    switch (Below(8)) {
      case 0:
        if (at < input->size()) (*input)[at] ^= char(1 << Below(8));
        break;
      case 1:
        if (at < input->size()) (*input)[at] = char(Below(256));
        break;
      case 2:
        input->erase(at, length);
        break;
      case 3:
        input->insert(at, input->substr(at, length));
        break;
      case 4:
        input->replace(at, length, kPieces[Below(kPieces.size())]);
        break;
      case 5:
        input->insert(at, kPieces[Below(kPieces.size())]);
        break;
      case 6: {
        const std::string& other = corpus_[Below(corpus_.size())];
        const size_t from = Below(other.size() + 1);
        input->insert(at, other, from, 1 + Below(64));
        break;
      }
      case 7:
        if (Below(8) == 0) input->resize(at);
        break;
    }
  }

  std::mt19937_64 random_{20240229};
  const std::vector<std::string>& corpus_;
};

}  // namespace

int main(int argc, char** argv) {
  uint64_t mutations = 0;
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "-runs=", 6) == 0) {
      mutations = std::strtoull(argv[i] + 6, nullptr, 10);
    } else if (fs::is_directory(argv[i])) {
      std::copy(fs::directory_iterator(argv[i]), {}, std::back_inserter(files));
    } else {
      files.emplace_back(argv[i]);
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> corpus;
  for (const fs::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(in),
                        std::istreambuf_iterator<char>());
    if (!in || corpus.back().size() > kMaxBytes) {
      std::fprintf(stderr, "%s: cannot be read, or is too large\n",
                   file.c_str());
      return 1;
    }
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "no seeds: name files or directories\n");
    return 1;
  }

  const bool keep = std::getenv("RBLN_FUZZ_KEEP") != nullptr;
  uint64_t runs = 0;
  double slowest = 0;
  const auto run = [&](const std::string& input) {
    if (keep) std::ofstream(kCurrent, std::ios::binary) << input;
    const auto start = std::chrono::steady_clock::now();
    // Of its own, so that a read past the end is seen.
    const std::vector<uint8_t> bytes(input.begin(), input.end());
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    const std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - start;
    slowest = std::max(slowest, took.count());
    ++runs;
  };
  for (const std::string& seed : corpus) run(seed);
  Mutator mutate(corpus);
  for (uint64_t round = 0; round < mutations; ++round) {
    for (const std::string& seed : corpus) run(mutate(seed));
  }
  std::printf("%llu runs of %zu seeds, slowest %.3f s\n",
              static_cast<unsigned long long>(runs), corpus.size(), slowest);
  return 0;
}
