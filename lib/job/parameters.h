// Sampling parameters from JSON: of a line, a flag, rbln.yaml or
// generation_config.json.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "engine/sampling_params.h"

namespace rbln {

// What may be said of one request.
struct RequestParams {
  SamplingParams sampling;
  // Keep the prompt's last tokens only; -1: as many as the model takes.
  std::optional<int> truncate_prompt_tokens;
  bool echo = false;  // the text begins with the prompt's
};

struct ParameterInfo {
  enum class Kind { kInteger, kNumber, kBoolean, kStrings, kIntegers, kObject };
  const char* name;
  Kind kind;
  const char* help;
};
// Every parameter, in the order of the documentation.
const std::vector<ParameterInfo>& Parameters();

// Sets a parameter by name; null leaves it as it is. False when there is no
// such parameter. Throws Error(kUsage) "NAME must be ..., got VALUE" for a
// value of the wrong type; ranges are for the engine to check.
bool SetParameter(RequestParams& params, std::string_view name,
                  const Json& value);

// The value of a flag of this name as SetParameter takes it. Throws
// Error(kUsage) when `texts` (the flag's values, in order) are not of its kind.
Json FlagValue(const ParameterInfo& parameter,
               const std::vector<std::string>& texts);

// Defaults, laid one over the other, and where each value came from.
class ParameterDefaults {
 public:
  explicit ParameterDefaults(RequestParams start) : params_(std::move(start)) {}

  // Lays an object's values over those set. Throws Error(kUsage) for a
  // parameter that does not exist or has a value of the wrong type; the message
  // begins with `origin`.
  void Apply(const Json& values, const std::string& origin);
  const RequestParams& params() const { return params_; }
  // Name to value and origin, of what was laid over the start.
  struct Source {
    Json value;
    std::string origin;
  };
  const std::map<std::string, Source>& sources() const { return sources_; }

 private:
  RequestParams params_;
  std::map<std::string, Source> sources_;
};

// The sampling values of a generation_config.json under our names.
Json GenerationConfigValues(const Json& config);

}  // namespace rbln
