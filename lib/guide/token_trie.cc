#include "guide/token_trie.h"

#include <algorithm>

namespace rbln {
namespace {

// Longer ones are left out: a depth must fit its field, and a token of this
// length is no text.
constexpr size_t kMaxTokenBytes = 4096;

}  // namespace

TokenTrie::TokenTrie(std::vector<std::pair<std::string, TokenId>> tokens) {
  std::sort(tokens.begin(), tokens.end());
  std::vector<int32_t> path;  // the nodes of the token before
  const std::string* before = nullptr;
  const auto close = [&](size_t length) {
    while (path.size() > length) {
      nodes_[path.back()].end = static_cast<int32_t>(nodes_.size());
      path.pop_back();
    }
  };
  for (const auto& [bytes, id] : tokens) {
    if (bytes.empty() || bytes.size() > kMaxTokenBytes) continue;
    size_t shared = 0;
    if (before != nullptr) {
      while (shared < bytes.size() && shared < before->size() &&
             bytes[shared] == (*before)[shared]) {
        ++shared;
      }
    }
    close(shared);
    for (size_t i = shared; i < bytes.size(); ++i) {
      path.push_back(static_cast<int32_t>(nodes_.size()));
      nodes_.push_back({0, static_cast<int32_t>(tokens_.size()),
                        static_cast<uint16_t>(i + 1),
                        static_cast<uint8_t>(bytes[i])});
    }
    tokens_.push_back(id);
    depth_ = std::max(depth_, static_cast<int>(bytes.size()));
    before = &bytes;
  }
  close(0);
  const auto end = static_cast<int32_t>(nodes_.size());
  nodes_.push_back({end, static_cast<int32_t>(tokens_.size()), 0, 0});
}

}  // namespace rbln
