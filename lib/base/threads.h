// A fixed team of threads that walks through the same work together and meets
// at barriers, as one step of a program needs it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

namespace rbln {

// Binds the calling thread to `cpus`, ascending. A thread that is made is bound
// as its maker is: where that is not wanted, AllowedCpus() are to be given.
void BindTo(std::span<const int> cpus);

// Threads meet here: none goes on before all have come. Waiting spins briefly,
// since the others are usually microseconds away, and then sleeps, so that a
// machine with other work to do is not kept from it.
class Barrier {
 public:
  explicit Barrier(int count) : count_(count) {}
  void Wait();

 private:
  const int count_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<uint32_t> round_{0};
  alignas(64) std::atomic<int> sleepers_{0};
};

// The CPUs for each of `threads` threads in `groups` equal groups of
// neighbours, on a machine with these CPUs by NUMA node: one each where there
// are exactly as many, in the order of the nodes; else for several groups on
// several nodes those of the group's nodes; else none (empty), since with CPUs
// to spare the scheduler knows better than we which are idle, and two processes
// must not pile up on the same ones.
std::vector<std::vector<int>> PlaceThreads(
    int threads, int groups, const std::vector<std::vector<int>>& nodes);

// `size` threads, one of them the caller of Run. Run is called by one thread at
// a time.
class ThreadTeam {
 public:
  // Thread i is bound to the CPUs places[i]; the caller, who is thread 0, until
  // the team ends. None is bound where `places` is empty.
  ThreadTeam(int size, std::vector<std::vector<int>> places);
  // With `pin`, as PlaceThreads says for one group.
  ThreadTeam(int size, bool pin);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return size_; }
  // Calls work(0) .. work(size - 1), each on its thread, and returns when all
  // have. `work` must not throw.
  void Run(const std::function<void(int thread)>& work);
  // Inside `work`: where all threads of the team meet.
  Barrier& barrier() { return barrier_; }

 private:
  void Loop(int thread);

  const int size_;
  const std::vector<std::vector<int>> places_;
  Barrier barrier_;
  const std::function<void(int)>* work_ = nullptr;
  std::atomic<uint32_t> generation_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

// The part of [0, count) that falls to `index` of `parts`: contiguous, in
// order, sizes differing by at most one.
struct Range {
  int64_t begin;
  int64_t end;
};
inline Range Share(int64_t count, int index, int parts) {
  return {count * index / parts, count * (index + 1) / parts};
}

// Calls work(i) for every i in [0, count) on up to `threads` threads of its
// own, handing out indices in order; rethrows the first exception.
void ParallelFor(int threads, int64_t count,
                 const std::function<void(int64_t)>& work);

}  // namespace rbln
