#include "guide/emit.h"

#include <array>
#include <map>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/tokenizer_utf8.h"

namespace rbln {
namespace {

// What JSON strings must escape.
const CharSet kEscaped = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};

class Emitter {
 public:
  explicit Emitter(GrammarBuilder& builder) : builder_(builder) {}

  // One character of the range, as UTF-8: cut into pieces whose bytes are
  // independent of each other.
  void Utf8(int from, char32_t lo, char32_t hi, int to) {
    for (const char32_t most : {0x7F, 0x7FF, 0xFFFF}) {
      if (lo <= most && most < hi) {
        Utf8(from, lo, most, to);
        Utf8(from, most + 1, hi, to);
        return;
      }
    }
    std::string first;
    AppendUtf8(lo, &first);
    for (size_t i = 1; i < first.size(); ++i) {
      const char32_t rest = (char32_t{1} << (6 * i)) - 1;
      if ((lo & ~rest) == (hi & ~rest)) continue;
      if ((lo & rest) != 0) {
        Utf8(from, lo, lo | rest, to);
        Utf8(from, (lo | rest) + 1, hi, to);
        return;
      }
      if ((hi & rest) != rest) {
        Utf8(from, lo, (hi & ~rest) - 1, to);
        Utf8(from, hi & ~rest, hi, to);
        return;
      }
    }
    std::string last;
    AppendUtf8(hi, &last);
    Bytes(from, first, last, to);
  }

  void Escapes(int from, const CharSet& set, int to) {
    for (const CharRange& range : Intersection(set, kEscaped)) {
      for (char32_t c = range.lo; c <= range.hi; ++c) {
        const std::string quoted = JsonString(std::string(1, char(c)));
        builder_.AddLiteral(from, quoted.substr(1, quoted.size() - 2), to);
        // Hexadecimal digits may be of either case.
        if (quoted[2] == 'u') {
          std::string upper = quoted.substr(1, quoted.size() - 2);
          for (char& digit : upper) {
            if (digit >= 'a' && digit <= 'f') digit -= 'a' - 'A';
          }
          if (upper != quoted.substr(1, quoted.size() - 2)) {
            builder_.AddLiteral(from, upper, to);
          }
        }
      }
    }
  }

 private:
  // Reads a byte in [first[i], last[i]] for each i. The ends of characters that
  // lead to one state are shared.
  void Bytes(int from, std::string_view first, std::string_view last, int to) {
    for (size_t i = first.size() - 1; i > 0; --i) {
      const auto lo = static_cast<uint8_t>(first[i]);
      const auto hi = static_cast<uint8_t>(last[i]);
      const auto [at, added] = tails_.try_emplace({to, lo, hi}, 0);
      if (added) {
        at->second = builder_.AddState();
        builder_.AddBytes(at->second, lo, hi, to);
      }
      to = at->second;
    }
    builder_.AddBytes(from, static_cast<uint8_t>(first[0]),
                      static_cast<uint8_t>(last[0]), to);
  }

  GrammarBuilder& builder_;
  std::map<std::array<int, 3>, int> tails_;
};

}  // namespace

void EmitDfa(GrammarBuilder& builder, const CharDfa& dfa, TextForm form,
             int from, int to) {
  if (dfa.empty()) return;
  Emitter emitter(builder);
  std::vector<int> states;
  for (size_t i = 0; i < dfa.states.size(); ++i) {
    states.push_back(builder.AddState());
  }
  builder.AddJump(from, states[0]);
  const CharSet raw =
      form == TextForm::kJsonString ? Complement(kEscaped) : AllChars();
  for (size_t i = 0; i < dfa.states.size(); ++i) {
    if (dfa.states[i].accepts) builder.AddJump(states[i], to);
    for (const CharDfa::Edge& edge : dfa.states[i].edges) {
      const CharSet set = {edge.range};
      for (const CharRange& range : Intersection(set, raw)) {
        emitter.Utf8(states[i], range.lo, range.hi, states[edge.to]);
      }
      if (form == TextForm::kJsonString) {
        emitter.Escapes(states[i], set, states[edge.to]);
      }
    }
  }
}

void EmitChars(GrammarBuilder& builder, const CharSet& set, int from, int to) {
  Emitter emitter(builder);
  for (const CharRange& range : set) emitter.Utf8(from, range.lo, range.hi, to);
}

std::string JsonString(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace rbln
