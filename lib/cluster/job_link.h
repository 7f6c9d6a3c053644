// A job's lines and answers between the first rank of each replica.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <vector>

#include "cluster/world.h"
#include "job/replicas.h"

namespace rbln {

// On rank 0 of all.
class RemoteReplicas : public Replicas {
 public:
  // `world` must outlive this object; each replica has `ranks` of its ranks.
  RemoteReplicas(World& world, int ranks);

  int count() const override { return static_cast<int>(states_.size()); }
  int64_t in_work(int replica) const override {
    return states_[replica].in_work;
  }
  void Give(int replica, const InputLine& line) override;
  void Take(std::vector<Answer>& answers) override;
  void Finish(EngineStats* stats) override;

 private:
  using Clock = std::chrono::steady_clock;
  struct State {
    int64_t in_work = 0;
    Clock::time_point heard;  // of it last, while it has work
    bool finished = false;
  };

  // Takes one message of a replica; false where there is none.
  bool TakeOne(std::vector<Answer>* answers, EngineStats* stats);
  void CheckHeard();

  World& world_;
  const int ranks_;
  std::vector<State> states_;
};

// On the first rank of every other replica.
class RemoteCoordinator : public Coordinator {
 public:
  explicit RemoteCoordinator(World& world) : world_(world) {}

  std::optional<InputLine> Next(bool wait) override;
  bool ended() const override { return ended_; }
  void Put(const Answer& answer) override;
  void Finish(const EngineStats& stats) override;

 private:
  using Clock = std::chrono::steady_clock;

  World& world_;
  bool ended_ = false;
  Clock::time_point said_ = Clock::now();
};

}  // namespace rbln
