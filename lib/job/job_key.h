// What the answers of a run depend on: kept beside them, so that a run that
// resumes, or a merge, can tell what does not belong together.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"

namespace rbln {

struct JobKey {
  std::string input;  // checksum of the file of prompts; empty: not known
  std::string model;  // checksum of the manifest
  // Everything of the command line that counts, by name.
  Json parameters = Json::object();
  // The part of the lines that is answered, counted from 1; 0 of 0: all.
  int64_t shard = 0;
  int64_t shards = 0;

  // Under the names of the fields.
  Json ToJson() const;
};

// Of two keys as JSON, the first thing that differs: "the file of prompts",
// "the parameter seed (0 against 3)"; empty where nothing does.
std::string Difference(const Json& one, const Json& other);

// What lies beside the answers to a shard, at PartPath of their file, for
// merge.
struct PartFacts {
  int64_t shard = 0;
  int64_t shards = 0;
  std::string answers;  // checksum of the file
  Json key;             // of all parts the same

  // Throws Error(kUsage) where it is missing or damaged.
  static PartFacts Read(const std::string& path);
  // Throws Error(kResource).
  static void Write(const std::string& path, const JobKey& key,
                    const std::string& answers);
};

// The name of what lies beside a shard's file of answers.
std::string PartPath(const std::string& path);

}  // namespace rbln
