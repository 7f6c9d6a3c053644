// The files that a command line names to be written.
#pragma once

#include <string>
#include <vector>

namespace rbln {

struct NamedFile {
  std::string name;  // what names it, such as "--report"
  std::string path;
};

// Before anything is written: throws Error(kUsage) where an output cannot be
// written, is one of `inputs` or another output, or lies in `model` (a
// directory, or empty). Inputs may be missing; "-" is standard input.
void CheckOutputs(const std::vector<NamedFile>& outputs,
                  const std::vector<NamedFile>& inputs,
                  const std::string& model);

}  // namespace rbln
