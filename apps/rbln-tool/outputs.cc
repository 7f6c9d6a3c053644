#include "rbln-tool/outputs.h"

#include <filesystem>

#include "base/file.h"

namespace rbln {
namespace {

namespace fs = std::filesystem;

// One file under two names, too: links, mounts.
bool Same(const std::string& a, const std::string& b) {
  std::error_code missing;
  return a == b || fs::equivalent(a, b, missing);
}

}  // namespace

void CheckOutputs(const std::vector<NamedFile>& outputs,
                  const std::vector<NamedFile>& inputs,
                  const std::string& model) {
  std::error_code missing;
  const std::string inside =
      model.empty() ? "" : fs::weakly_canonical(model, missing).string() + "/";
  std::vector<NamedFile> taken = inputs;
  for (NamedFile& input : taken) {
    if (input.path == "-") input.path = "/dev/stdin";
  }
  for (const NamedFile& output : outputs) {
    const OutputPath place = ResolveOutput(output.path, ErrorKind::kUsage);
    // A device takes what any number of outputs write.
    if (place.direct) continue;
    if (!inside.empty() && place.path.starts_with(inside)) {
      throw UsageError(
          "{} {}: lies in the compiled directory, which is complete as it is; "
          "name a file outside {}",
          output.name, output.path, model);
    }
    const std::string temporary = TemporaryPath(place.path);
    for (const NamedFile& other : taken) {
      if (Same(place.path, other.path) || Same(temporary, other.path)) {
        throw UsageError("{} {}: would be written over {}; name another file",
                         output.name, output.path, other.name);
      }
    }
    taken.push_back({output.name, place.path});
    taken.push_back({output.name, temporary});
  }
}

}  // namespace rbln
