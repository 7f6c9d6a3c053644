// Which tile a matmul runs with: measured on this machine, and remembered.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace rbln {

// A tile and the time that it took.
struct MeasuredTile {
  MatmulTile tile;
  double microseconds;
};

// Measures candidate tiles with the kernels that will run them, streaming
// weights from memory on all threads, as a step does. What was measured is kept
// in a file for this user and machine (`path`), so that the next compile is
// quick and gives the same bytes. One thread.
class Tuner {
 public:
  // Reads `path`; a file that is missing or damaged is as good as empty, and
  // what was measured on another processor is left alone. `working_set` is the
  // size of the weights of a step, which decides from which cache they come.
  Tuner(const KernelTable& kernels, int threads, uint64_t working_set,
        std::string path);
  ~Tuner();
  Tuner(const Tuner&) = delete;
  Tuner& operator=(const Tuner&) = delete;

  // The candidates for such a matmul, fastest first. `paired` where panels
  // alternate, as for Epilogue::SiluGate.
  const std::vector<MeasuredTile>& Choose(Format format, int rows, int inputs,
                                          bool paired);

  // Writes what was measured anew; failing to is no error.
  void Save() const;

  // Of this user: $XDG_CACHE_HOME or ~/.cache; empty where there is neither.
  static std::string DefaultPath();

 private:
  class Bench;
  std::vector<MeasuredTile> Measure(Format format, int rows, int inputs,
                                    bool paired);

  const KernelTable& kernels_;
  int threads_;
  uint64_t working_set_;
  std::string path_;
  std::string machine_;
  std::map<std::string, std::vector<MeasuredTile>> measured_;
  bool changed_ = false;
  std::unique_ptr<Bench> bench_;  // made when first needed
};

}  // namespace rbln
