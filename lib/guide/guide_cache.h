// Guides of a vocabulary, shared by the requests that ask for the same.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "guide/guide.h"
#include "guide/guide_spec.h"
#include "guide/token_bytes.h"

namespace rbln {

// Not thread safe.
class GuideCache {
 public:
  // `tokenizer` must outlive this object. Its tokens are looked at when the
  // first guide is asked for.
  GuideCache(const Tokenizer& tokenizer, int vocab_size);
  ~GuideCache();

  // The guide of a spec, made or found. It stays until it was released as often
  // as it was acquired, and for some time after that. Throws Error(kUsage),
  // beginning with the parameter's name.
  Guide* Acquire(const GuideSpec& spec);
  void Release(Guide* guide);

 private:
  struct Entry {
    std::unique_ptr<Guide> guide;
    int users = 0;
    int64_t released = 0;  // when, where it has no users
  };

  const Tokenizer& tokenizer_;
  const int vocab_size_;
  std::unique_ptr<const TokenBytes> tokens_;
  std::map<std::string, Entry> entries_;  // by kind and text
  int64_t clock_ = 0;
};

}  // namespace rbln
