#include "engine/block_manager.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

#include "engine/fake_executor.h"

namespace rbln {
namespace {

std::vector<TokenId> Tokens(int first, int count) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(first + i);
  return tokens;
}

void Compute(BlockManager& manager, const std::vector<TokenId>& tokens,
             SequenceBlocks& sequence, int from) {
  const int size = static_cast<int>(tokens.size());
  REQUIRE(manager.Grow(size, sequence));
  manager.Commit(tokens, from, size, sequence);
}

TEST_CASE("a sequence takes blocks as it grows and gives them back") {
  BlockManager manager(4, 8, true, [](int, int, int) {});
  SequenceBlocks sequence;
  CHECK(manager.Grow(1, sequence));
  CHECK(sequence.blocks.size() == 1);
  CHECK(manager.Grow(8, sequence));
  CHECK(sequence.blocks.size() == 1);
  CHECK(manager.Grow(9, sequence));
  CHECK(sequence.blocks.size() == 2);
  CHECK_FALSE(manager.Grow(33, sequence));
  CHECK(sequence.blocks.size() == 2);
  CHECK(manager.num_free() == 2);
  manager.Release(sequence);
  CHECK(manager.num_free() == 4);
  CHECK(sequence.blocks.empty());
}

TEST_CASE(
    "full blocks of a common prefix are shared, a partial one is copied") {
  std::vector<std::pair<int, int>> copies;
  BlockManager manager(8, 8, true, [&](int from, int to, int tokens) {
    CHECK(tokens == 4);
    copies.emplace_back(from, to);
  });
  const std::vector<TokenId> first = Tokens(100, 22);
  SequenceBlocks a;
  Compute(manager, first, a, 0);

  std::vector<TokenId> second = first;
  second[20] = 7;  // 20 tokens in common: 2 blocks and 4 tokens
  CHECK(manager.Match(second, 21).tokens == 20);
  CHECK(manager.Match(second, 21).held_blocks == 2);
  SequenceBlocks b;
  CHECK(manager.Reuse(second, 21, b) == 20);
  CHECK(b.blocks.size() == 3);
  CHECK(b.blocks[0] == a.blocks[0]);
  CHECK(b.blocks[1] == a.blocks[1]);
  CHECK(b.blocks[2] != a.blocks[2]);
  CHECK(copies == std::vector<std::pair<int, int>>{{a.blocks[2], b.blocks[2]}});
  CHECK(manager.users(a.blocks[0]) == 2);
  manager.Release(a);
  CHECK(manager.users(b.blocks[0]) == 1);
  manager.Release(b);
  CHECK(manager.num_free() == 8);
}

TEST_CASE("never more than the limit is reused") {
  BlockManager manager(8, 8, true, [](int, int, int) {});
  const std::vector<TokenId> tokens = Tokens(100, 16);
  SequenceBlocks a;
  Compute(manager, tokens, a, 0);
  SequenceBlocks b;
  CHECK(manager.Reuse(tokens, 15, b) == 15);
  CHECK(b.blocks[1] != a.blocks[1]);
}

TEST_CASE("the last block there is is taken over instead of copied") {
  int copies = 0;
  BlockManager manager(1, 8, true, [&](int, int, int) { ++copies; });
  SequenceBlocks a;
  Compute(manager, Tokens(100, 6), a, 0);
  manager.Release(a);
  std::vector<TokenId> other = Tokens(100, 6);
  other[4] = 1;
  SequenceBlocks b;
  CHECK(manager.Reuse(other, 5, b) == 4);
  CHECK(copies == 0);
  manager.Commit(other, 4, 6, b);
  manager.Release(b);
  CHECK(manager.Match(other, 6).tokens == 6);
  CHECK(manager.Match(Tokens(100, 6), 6).tokens == 4);
}

TEST_CASE(
    "the content unused for longest is dropped first, its end before its "
    "start") {
  BlockManager manager(4, 4, true, [](int, int, int) {});
  const std::vector<TokenId> old_tokens = Tokens(100, 8);
  const std::vector<TokenId> new_tokens = Tokens(200, 8);
  SequenceBlocks a;
  SequenceBlocks b;
  Compute(manager, old_tokens, a, 0);
  Compute(manager, new_tokens, b, 0);
  manager.Release(a);
  manager.Release(b);
  SequenceBlocks c;
  REQUIRE(manager.Grow(4, c));
  CHECK(manager.Match(old_tokens, 8).tokens == 4);
  CHECK(manager.Match(new_tokens, 8).tokens == 8);
  REQUIRE(manager.Grow(8, c));
  CHECK(manager.Match(old_tokens, 8).tokens == 0);
  CHECK(manager.Match(new_tokens, 8).tokens == 8);
}

TEST_CASE("without caching nothing is found") {
  BlockManager manager(4, 4, false, [](int, int, int) { FAIL("copied"); });
  SequenceBlocks a;
  Compute(manager, Tokens(100, 8), a, 0);
  SequenceBlocks b;
  CHECK(manager.Match(Tokens(100, 8), 8).tokens == 0);
  CHECK(manager.Reuse(Tokens(100, 8), 8, b) == 0);
}

// Sequences come, grow, share, give back what a window has passed, lose
// everything, come back and go at random. A map of block content says at every
// moment what each table must hold.
int SoakRound(uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  const int block_size = 1 + below(8);
  const int num_blocks = 1 + below(48);
  const int window = below(2) == 0 ? 0 : 2 + below(20);
  std::vector<std::vector<TokenId>> content(num_blocks,
                                            std::vector<TokenId>(block_size));
  BlockManager manager(
      num_blocks, block_size, true, [&](int from, int to, int tokens) {
        std::copy_n(content[from].begin(), tokens, content[to].begin());
      });
  struct Live {
    std::vector<TokenId> tokens;
    SequenceBlocks blocks;
    int computed = 0;
  };
  std::vector<Live> live;
  const auto pass = [&](Live& sequence) {
    if (window == 0) return;
    manager.ReleaseBefore(std::max(0, sequence.computed + 1 - window),
                          sequence.blocks);
  };

  int reused = 0;
  for (int step = 0; step < 20000; ++step) {
    const int choice = below(20);
    const auto pick = [&]() -> Live& {
      return live[below(static_cast<int>(live.size()))];
    };
    if (choice < 6 && live.size() < 64) {
      Live sequence;
      const int size = 1 + below(6 * block_size + 6);
      for (int i = 0; i < size; ++i) {
        // Few tokens, so that prefixes coincide often.
        sequence.tokens.push_back(below(6) == 0 ? below(3) : 1);
      }
      sequence.computed =
          manager.Reuse(sequence.tokens, size - 1, sequence.blocks);
      pass(sequence);
      reused += sequence.computed;
      live.push_back(std::move(sequence));
    } else if (choice < 15 && !live.empty()) {
      Live& sequence = pick();
      if (sequence.computed == static_cast<int>(sequence.tokens.size())) {
        sequence.tokens.push_back(below(3));  // it decodes
      }
      const int size = static_cast<int>(sequence.tokens.size());
      const int end = std::min(size, sequence.computed + 1 + below(6));
      if (manager.Grow(end, sequence.blocks)) {
        for (int i = sequence.computed; i < end; ++i) {
          const int block = sequence.blocks.blocks[i / block_size];
          REQUIRE(manager.users(block) == 1);
          content[block][i % block_size] = sequence.tokens[i];
        }
        manager.Commit(sequence.tokens, sequence.computed, end,
                       sequence.blocks);
        sequence.computed = end;
        pass(sequence);
      }
    } else if (choice < 17 && !live.empty()) {
      Live& sequence = pick();  // preempted, and back
      manager.Release(sequence.blocks);
      sequence.computed = manager.Reuse(
          sequence.tokens, static_cast<int>(sequence.tokens.size()) - 1,
          sequence.blocks);
      pass(sequence);
      reused += sequence.computed;
    } else if (!live.empty()) {
      const int at = below(static_cast<int>(live.size()));
      manager.Release(live[at].blocks);
      live.erase(live.begin() + at);
    }

    int wrong = 0;
    std::map<int, int> users;
    for (const Live& sequence : live) {
      const SequenceBlocks& table = sequence.blocks;
      for (size_t i = table.released; i < table.blocks.size(); ++i) {
        ++users[table.blocks[i]];
      }
      for (int i = table.released * block_size; i < sequence.computed; ++i) {
        const int block = table.blocks[i / block_size];
        wrong += content[block][i % block_size] != sequence.tokens[i];
      }
    }
    for (const auto& [block, count] : users) {
      wrong += manager.users(block) != count;
    }
    REQUIRE(wrong == 0);
    REQUIRE(manager.num_free() == num_blocks - static_cast<int>(users.size()));
  }
  for (Live& sequence : live) manager.Release(sequence.blocks);
  REQUIRE(manager.num_free() == num_blocks);
  return reused;
}

// RBLN_SOAK_ROUNDS makes it as long as wanted.
TEST_CASE("soak: blocks are never leaked, and never shared by mistake") {
  int64_t reused = 0;
  const int rounds = SoakRounds(8);
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    reused += SoakRound(1 + round);
  }
  CHECK(reused > 1000);
  MESSAGE(rounds, " rounds of 20000 steps, ", reused, " tokens reused");
}

}  // namespace
}  // namespace rbln
