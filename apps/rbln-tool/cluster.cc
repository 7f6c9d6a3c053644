#include "rbln-tool/cluster.h"

#include <fmt/core.h>

#include <algorithm>
#include <exception>

#include "base/console.h"
#include "base/cpu.h"
#include "base/error.h"

namespace rbln {
namespace {

// Threads for a process that shares its CPUs with others of the job.
int ShareOfThreads(const World& world) {
  const int allowed = static_cast<int>(AllowedCpus().size());
  const int granted = GrantedCpus().threads;
  int threads = allowed / world.sharers();
  // A quota is of all processes here.
  if (granted < allowed) {
    threads = std::min(threads, granted / world.local_size());
  }
  return std::max(1, threads);
}

}  // namespace

Cluster::Cluster(double patience) : world_(World::Join(patience)) {}
Cluster::~Cluster() = default;

std::string Cluster::ThreadsReason(int asked) const {
  if (asked > 0) return "--threads";
  const std::string granted = GrantedCpus().reason;
  return world_ == nullptr ? granted : "this process's share of " + granted;
}

void Cluster::Together(const std::function<void()>& work) {
  if (world_ == nullptr) return work();
  std::exception_ptr error;
  try {
    work();
  } catch (...) {
    error = std::current_exception();
  }
  const int first =
      world_->Min(error ? world_->rank() : world_->size(), 0, world_->size());
  if (first == world_->size()) return;
  if (first != world_->rank()) throw Ended{};
  if (first == 0) std::rethrow_exception(error);
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    Say(fmt::format("rbln-tool: {}: {}\n", world_->Name(first), e.what()));
    throw Ended{e.exit_code()};
  }
}

void Cluster::Alone(const std::function<void()>& work) {
  if (world_ == nullptr) return work();
  try {
    work();
  } catch (const Error& error) {
    world_->Abort(
        error.exit_code(),
        (leads() ? "" : world_->Name(world_->rank()) + ": ") + error.what());
  } catch (const std::exception& error) {
    world_->Abort(static_cast<int>(ErrorKind::kResource),
                  world_->Name(world_->rank()) + ": " + error.what());
  }
}

std::unique_ptr<Executor> Cluster::Load(
    const std::string& directory, RuntimeOptions options,
    const std::function<void(const MemoryPlan&)>& say) {
  if (world_ == nullptr) return LoadModel(directory, options, say);
  MemoryPlan plan;
  Together([&] {
    ranks_ = Manifest::Read(directory).tensor_parallel_size;
    if (world_->size() % ranks_ != 0) {
      throw UsageError(
          "{}: {} processes are not whole replicas of {} tensor parallel "
          "ranks; "
          "start {} or a multiple of it",
          directory, world_->size(), ranks_, ranks_);
    }
    replicas_ = world_->size() / ranks_;
    if (ranks_ > 1) {
      transport_ = std::make_unique<RankTransport>(*world_, ranks_);
      options.transport = transport_.get();
    }
    if (options.threads == 0) options.threads = ShareOfThreads(*world_);
    options.processes = world_->local_size();
    plan = PlanMemory(directory, options);
  });
  // What fits on one is what all have: an answer must not depend on who gave
  // it.
  options.num_blocks = world_->Min(plan.num_blocks, 0, world_->size());
  std::unique_ptr<Executor> executor;
  Together([&] { executor = LoadModel(directory, options, say); });
  return executor;
}

}  // namespace rbln
