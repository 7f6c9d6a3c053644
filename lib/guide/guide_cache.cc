#include "guide/guide_cache.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace rbln {
namespace {

// Guides that are kept though nobody uses them.
constexpr int kMostIdle = 8;

}  // namespace

GuideCache::GuideCache(const Tokenizer& tokenizer, int vocab_size)
    : tokenizer_(tokenizer), vocab_size_(vocab_size) {}

GuideCache::~GuideCache() = default;

Guide* GuideCache::Acquire(const GuideSpec& spec) {
  const std::string key =
      fmt::format("{}:{}", static_cast<int>(spec.kind), spec.text);
  auto at = entries_.find(key);
  if (at == entries_.end()) {
    auto grammar = CompileGuide(spec);
    if (tokens_ == nullptr) {
      try {
        tokens_ = std::make_unique<const TokenBytes>(tokenizer_, vocab_size_);
      } catch (const Error& error) {
        throw UsageError("{}: {}", spec.name, error.what());
      }
    }
    at = entries_.emplace(key, Entry()).first;
    at->second.guide = std::make_unique<Guide>(std::move(grammar), *tokens_);
  }
  ++at->second.users;
  return at->second.guide.get();
}

void GuideCache::Release(Guide* guide) {
  int idle = 0;
  auto oldest = entries_.end();
  for (auto at = entries_.begin(); at != entries_.end(); ++at) {
    Entry& entry = at->second;
    if (entry.guide.get() == guide && --entry.users == 0) {
      entry.released = ++clock_;
      guide->Trim();
    }
    if (entry.users > 0) continue;
    ++idle;
    if (oldest == entries_.end() || entry.released < oldest->second.released) {
      oldest = at;
    }
  }
  if (idle > kMostIdle) entries_.erase(oldest);
}

}  // namespace rbln
