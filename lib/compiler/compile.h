// The compile job: checkpoint in, compiled directory out.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "compiler/options.h"

namespace rbln {

struct CompileSettings {
  int threads = 0;     // 0: what base/cpu.h grants
  bool force = false;  // redo everything, also what did not change
  // Told, from any thread, how far a phase ("read", "pack") has come, in bytes.
  // Before anything is written it is told of 0 bytes. What it throws ends the
  // compile, which then leaves nothing behind.
  std::function<void(const char* phase, uint64_t done, uint64_t total)>
      progress;
  // Sees the graph as text after import and after each pass; may be empty.
  std::function<void(const std::string& pass, const std::string& graph)> dump;
};

struct CompileReport {
  std::string output;
  std::string target;                // the ISA compiled for
  std::vector<std::string> written;  // files made anew
  std::vector<std::string> kept;     // files taken over from the last compile
  uint64_t source_bytes = 0;         // of the tensors that were read
  uint64_t output_bytes = 0;         // of the whole directory
  double seconds = 0;

  bool up_to_date() const { return written.empty(); }
};

// Compiles. The directory appears whole or not at all; what is unchanged since
// the last compile into it is taken over; one that holds anything but files of
// a compile is refused; a link to it stays. Throws Error: kUsage for a
// checkpoint or options that are bad, weights that are NaN, infinite or too
// large for their format among them, kResource for lack of disk or memory.
CompileReport Compile(const Checkpoint& checkpoint,
                      const CompileOptions& options,
                      const CompileSettings& settings);

}  // namespace rbln
