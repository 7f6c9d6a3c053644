// What a guide lets through: a recursive automaton over bytes.
//
// A grammar is a set of rules, and each rule an automaton whose edges read a
// byte, read nothing, or call a rule: then what that rule reads comes in this
// place. A rule may call itself, which is how JSON nests. Rules are how large
// schemas stay small, too: a definition used in ten places is there once.
//
// The depth of calls is bounded, so that a text cannot nest without end. The
// grammar knows of each state how many calls more it takes to come to an end;
// ways that cannot end within the bound are closed from the start, so that no
// text leads into a blind alley.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rbln {

// Calls inside each other, at most. A level of JSON takes one or two.
inline constexpr int kMaxGrammarDepth = 128;

// Immutable; may be used from many threads.
class Grammar {
 public:
  struct Edge {
    enum Kind : uint8_t { kBytes, kJump, kCall };
    Kind kind;
    uint8_t lo = 0;  // kBytes: the bytes lo to hi
    uint8_t hi = 0;
    bool tail = false;  // kCall: nothing is left to do behind it
    int32_t to = 0;
    int32_t start = 0;  // kCall: where the rule starts
  };

  std::span<const Edge> edges(int state) const {
    return std::span(edges_).subspan(first_[state],
                                     first_[state + 1] - first_[state]);
  }
  bool ends(int state) const { return ends_[state]; }
  // Calls that it takes, at least, to come to the end of the state's rule.
  int depth(int state) const { return depth_[state]; }
  int num_states() const { return static_cast<int>(ends_.size()); }
  int start() const { return start_; }

  // Bytes that every edge treats alike have one class.
  int byte_class(uint8_t byte) const { return byte_class_[byte]; }
  int num_classes() const { return static_cast<int>(class_byte_.size()); }
  // A byte of the class.
  uint8_t class_byte(int byte_class) const { return class_byte_[byte_class]; }

 private:
  friend class GrammarBuilder;
  Grammar() = default;

  int start_ = 0;
  std::vector<int32_t> first_;  // of the edges of each state, and the end
  std::vector<Edge> edges_;
  std::vector<char> ends_;
  std::vector<int16_t> depth_;
  std::array<uint8_t, 256> byte_class_ = {};
  std::vector<uint8_t> class_byte_;
};

class GrammarBuilder {
 public:
  // `where` begins the message of every error.
  explicit GrammarBuilder(std::string where);

  // A rule, whose first state is given; `name` is for messages. The first rule
  // is the whole text.
  int AddRule(std::string name);
  int start(int rule) const { return rules_[rule].start; }

  // All throw Error(kUsage) when the grammar becomes too large.
  int AddState();
  void SetEnd(int state) { ends_[state] = 1; }
  void AddBytes(int from, uint8_t lo, uint8_t hi, int to);
  void AddJump(int from, int to);
  void AddCall(int from, int rule, int to);
  void AddLiteral(int from, std::string_view bytes, int to);
  // Any of the texts, as a tree: where they begin alike they share states.
  void AddLiterals(int from, std::vector<std::string> texts, int to);

  const std::string& where() const { return where_; }

  // Throws Error(kUsage) when no text at all is let through, or a rule calls
  // itself before it has read anything. The builder is then empty.
  std::unique_ptr<const Grammar> Finish();

 private:
  struct Call {
    int rule;
    int from;
    int to;
  };
  struct Rule {
    std::string name;
    int start;
  };

  void AddEdge(int from, Grammar::Edge edge);
  void AddDistances(Grammar& grammar) const;
  void CheckProgress(const Grammar& grammar) const;
  void AddByteClasses(Grammar& grammar) const;

  std::string where_;
  std::vector<Rule> rules_;
  std::vector<std::vector<Grammar::Edge>> edges_;  // `start` is a rule
  std::vector<char> ends_;
  size_t num_edges_ = 0;
};

}  // namespace rbln
