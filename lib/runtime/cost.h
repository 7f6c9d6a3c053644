// What a step of a program must move and compute, and how long that takes on
// paper.
#pragma once

#include <functional>
#include <vector>

#include "artifact/program.h"

namespace rbln {

// Of one step or of one operation, on one rank.
struct Work {
  double bytes = 0;      // read of weights and KV cache
  double ops = 0;        // of matmuls
  double float_ops = 0;  // of attention, in float32
  // To other ranks, where those are in other processes: how often this one
  // waits for a message, and the bytes it sends.
  double messages = 0;
  double message_bytes = 0;

  Work& operator+=(const Work& other);
};

// Positions of KV cache that a step's rows see through a window (0: none), and
// pairs of query and key.
struct Context {
  std::function<double(int window)> keys;
  std::function<double(int window)> pairs;
};
// One row each of `rows` sequences of `depth` tokens.
Context DecodeContext(int rows, int depth);
// `rows` rows of one sequence, behind `at` tokens.
Context PrefillContext(int at, int rows);

// The work of each operation of a program, for `rows` token rows of which
// `logits` want logits.
std::vector<Work> CountWork(const ProgramT& program, int rows, int logits,
                            const Context& context);
Work Total(const std::vector<Work>& works);

// What a rank can do in a second.
struct Limits {
  double read = 0;        // bytes
  double peak = 0;        // operations of the weights' arithmetic
  double float_peak = 0;  // of float32
  double network = 0;     // bytes sent to other ranks; 0: infinitely many
  double latency = 0;     // seconds until a message is there

  // The least seconds that some work takes.
  double Floor(const Work& work) const;
};

}  // namespace rbln
