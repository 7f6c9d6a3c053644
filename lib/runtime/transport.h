// How tensor parallel ranks in several processes reach each other.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace rbln {

// Messages between the ranks of one model, of which this process has one. All
// ranks make the same calls in the same order, from one thread at a time; each
// returns when what it sends may be overwritten and what it receives is there.
// A rank that does not answer ends the processes of all, with a message that
// names it: in the middle of a step there is nothing else to do.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // Sends send[r] to each other rank r, and receives recv[r] from it; both may
  // be empty. What one sends is of the size that the other receives.
  virtual void Exchange(std::span<const std::span<const std::byte>> send,
                        std::span<const std::span<std::byte>> recv) = 0;
  // Rank 0 sends `message` to all others, where it is filled.
  virtual void Broadcast(std::vector<std::byte>* message) = 0;
};

}  // namespace rbln
