// This process among those that mpirun started together with it, if any.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cluster/world.h"
#include "runtime/runtime.h"

namespace rbln {

// Ends a process whose error has been said, by it or by another one.
struct Ended {
  int exit_code = 0;
};

class Cluster {
 public:
  // Joins the others. `patience` as in World::Join; throws as that does.
  explicit Cluster(double patience);
  ~Cluster();

  // Null where this process is alone.
  World* world() const { return world_.get(); }
  // Whether this process reads the input and says things.
  bool leads() const { return world_ == nullptr || world_->rank() == 0; }
  // After Load: whether it is the first rank of its replica.
  bool leads_replica() const {
    return transport_ == nullptr || transport_->rank() == 0;
  }
  int replicas() const { return replicas_; }
  int ranks() const { return ranks_; }

  // Does `work` on all processes. An error on one ends all: of several the one
  // on the lowest rank is said. Throws it, or Ended.
  void Together(const std::function<void()>& work);
  // Does `work` on this process alone. An error ends all at once.
  void Alone(const std::function<void()>& work);

  // Loads this process's part of a model: all of it, or one rank. `plan`, where
  // not null, is told what it takes. Throws as LoadModel does; Error(kUsage)
  // where the processes do not make up whole replicas.
  std::unique_ptr<Executor> Load(
      const std::string& directory, RuntimeOptions options,
      const std::function<void(const MemoryPlan&)>& plan = nullptr);
  // Why the model has the threads it has; `asked`: by a flag, 0: none.
  std::string ThreadsReason(int asked) const;

 private:
  std::unique_ptr<World> world_;
  std::unique_ptr<RankTransport> transport_;
  int ranks_ = 1;
  int replicas_ = 1;
};

}  // namespace rbln
