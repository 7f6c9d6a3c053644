// KV cache blocks kept on disk between runs: of a prompt that was computed
// before, the blocks are read instead.
//
// A directory of files, one a block, named by a hash of all that the block's
// bits depend on: the fingerprint of the artifact on this instruction set, and
// every token up to the block's end. A file is
//
//   8 bytes "RBLNKV01", the name's 32 digits, the block, and a checksum of
//   all of these (XXH3, 128 bits, as base/hash.h writes it).
//
// Files appear whole, by renaming, so that any number of processes may share
// the directory; one that is damaged is dropped with a warning. The least
// recently used go when the directory grows beyond its bound. Other files in
// the directory are never touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "text/tokenizer.h"

namespace rbln {

// Not thread safe; other processes may use the same directory.
class PrefixStore {
 public:
  // `fingerprint` is Executor::kv_fingerprint(). Creates the directory. Throws
  // Error(kResource) when it cannot be used.
  PrefixStore(std::string directory, uint64_t max_bytes,
              std::string fingerprint);

  // The name of the block of `tokens` that follows the block `previous` (empty:
  // it is the first of a sequence).
  std::string Name(const std::string& previous,
                   std::span<const TokenId> tokens) const;
  // Fills `block` from the file of this name. False, with nothing changed,
  // where there is none, or none that is whole.
  bool Load(const std::string& name, std::span<std::byte> block);
  // Keeps a block, unless it is there already. What cannot be written is left
  // out, with one warning.
  void Save(const std::string& name, std::span<const std::byte> block);

 private:
  std::string Path(const std::string& name) const;
  // Removes the least recently used files until no more than `most` bytes are
  // left.
  void Trim(uint64_t most);

  const std::string directory_;
  const uint64_t max_bytes_;
  const std::string fingerprint_;
  uint64_t bytes_ = 0;  // of the files, as far as this process knows
  int64_t saves_ = 0;
  bool writable_ = true;
  bool warned_ = false;
  std::unordered_set<std::string> known_;  // names that are on disk
  std::vector<std::byte> buffer_;          // of a block that is not checked yet
};

}  // namespace rbln
