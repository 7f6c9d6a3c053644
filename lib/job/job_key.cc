#include "job/job_key.h"

#include "base/file.h"

namespace rbln {
namespace {

constexpr int kPartVersion = 1;

Json Field(const Json& object, const std::string& name) {
  return object.is_object() && object.contains(name) ? object[name] : Json();
}

// "0.8", or "unset"; of what is long, only that there is something.
std::string Brief(const Json& value) {
  constexpr size_t kMaxBytes = 60;
  if (value.is_null()) return "unset";
  const std::string text = value.dump();
  return text.size() > kMaxBytes ? "..." : text;
}

}  // namespace

Json JobKey::ToJson() const {
  return {{"input", input},
          {"model", model},
          {"parameters", parameters},
          {"shard", shard},
          {"shards", shards}};
}

std::string Difference(const Json& one, const Json& other) {
  const auto differs = [&](const char* name) {
    return Field(one, name) != Field(other, name);
  };
  if (differs("input")) return "the file of prompts";
  if (differs("model")) return "the model";
  if (differs("shard") || differs("shards")) return "--shard";
  if (!differs("parameters")) return "";
  Json names = Field(one, "parameters");
  names.update(Field(other, "parameters"));
  for (const auto& [name, ignored] : names.items()) {
    const Json a = Field(Field(one, "parameters"), name);
    const Json b = Field(Field(other, "parameters"), name);
    if (a != b) {
      return fmt::format("the parameter {} ({} against {})", name, Brief(a),
                         Brief(b));
    }
  }
  return "a parameter";
}

std::string PartPath(const std::string& path) { return path + ".shard"; }

PartFacts PartFacts::Read(const std::string& path) {
  const std::string beside = PartPath(path);
  if (!FileExists(beside)) {
    throw UsageError(
        "{}: {}, which generate --shard leaves beside its --output, is not "
        "there; keep the two together",
        path, beside);
  }
  const Json found = ReadJsonFile(beside, ErrorKind::kUsage);
  PartFacts facts;
  facts.key = Field(found, "key");
  const Json shard = Field(facts.key, "shard");
  const Json shards = Field(facts.key, "shards");
  const Json answers = Field(found, "answers");
  if (Field(found, "rbln_shard") != kPartVersion ||
      !shard.is_number_integer() || !shards.is_number_integer() ||
      !answers.is_string() || !Field(facts.key, "parameters").is_object()) {
    throw UsageError(
        "{}: damaged, or of another version of this tool; run the "
        "shard again",
        beside);
  }
  facts.shard = shard.get<int64_t>();
  facts.shards = shards.get<int64_t>();
  facts.answers = answers.get<std::string>();
  facts.key.erase("shard");
  return facts;
}

void PartFacts::Write(const std::string& path, const JobKey& key,
                      const std::string& answers) {
  const Json facts = {{"rbln_shard", kPartVersion},
                      {"answers", answers},
                      {"key", key.ToJson()}};
  WriteFileAtomically(PartPath(path), facts.dump() + "\n");
}

}  // namespace rbln
