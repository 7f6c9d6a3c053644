// The processes of one job: several rbln-tool that mpirun or srun started
// together. Ranks 0 .. N - 1 of them are the tensor parallel ranks of the first
// replica of the model, the next N those of the second, and so on.
//
// Messages go from process to process, never through collective calls of the
// library: so it is known which process is waited for.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/transport.h"

namespace rbln {

enum class Tag {
  kAgree,
  kExchange,
  kBroadcast,
  kLine,
  kAnswer,
};

// One thread, the one that joined. Where a process does not answer in time, or
// is lost, all are ended with exit code 4 and a message that names it.
class World {
 public:
  // Joins the processes started with this one. Null where it was started alone.
  // Throws Error(kUsage) where this build cannot. `patience`: seconds after
  // which a process that says nothing is given up.
  static std::unique_ptr<World> Join(double patience);
  // The place of this process among those started together, before it joins; 0
  // for one that was started alone.
  static int LaunchedRank();

  virtual ~World() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Processes on this machine, this one among them.
  virtual int local_size() const = 0;
  // Of these, those that may use the same CPUs as this one.
  virtual int sharers() const = 0;
  double patience() const { return patience_; }
  // "rank 3 (host)".
  virtual std::string Name(int rank) const = 0;

  // All call it: the least of the values of ranks [begin, end), of which this
  // is one.
  virtual int Min(int value, int begin, int end) = 0;
  // Sends send[i] to rank begin + i and receives recv[i] from it, as
  // Transport::Exchange.
  virtual void Exchange(int begin,
                        std::span<const std::span<const std::byte>> send,
                        std::span<const std::span<std::byte>> recv) = 0;
  // Returns at once; messages of one tag from one process to another arrive in
  // order.
  virtual void Send(int to, Tag tag, std::vector<std::byte> message) = 0;
  // A message that has come, from `from` or (-1) anyone.
  struct Packet {
    int from;
    std::vector<std::byte> bytes;
  };
  virtual std::optional<Packet> Poll(int from, Tag tag) = 0;
  // Waits until `done`, politely where others need the CPU, for at most
  // `seconds`. Returns the last answer.
  virtual bool WaitFor(const std::function<bool()>& done, double seconds) = 0;

  // Ends all processes.
  [[noreturn]] virtual void Abort(int exit_code,
                                  const std::string& message) = 0;

 protected:
  explicit World(double patience) : patience_(patience) {}

 private:
  const double patience_;
};

// The tensor parallel ranks of the replica that a process belongs to.
class RankTransport : public Transport {
 public:
  // `world` must outlive this object.
  RankTransport(World& world, int ranks)
      : world_(world), ranks_(ranks), begin_(world.rank() / ranks * ranks) {}

  int rank() const override { return world_.rank() - begin_; }
  int ranks() const override { return ranks_; }
  void Exchange(std::span<const std::span<const std::byte>> send,
                std::span<const std::span<std::byte>> recv) override;
  void Broadcast(std::vector<std::byte>* message) override;
  // The least of the ranks' values.
  int Min(int value) { return world_.Min(value, begin_, begin_ + ranks_); }

 private:
  World& world_;
  const int ranks_;
  const int begin_;
};

}  // namespace rbln
