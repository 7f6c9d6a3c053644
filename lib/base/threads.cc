#include "base/threads.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <span>

#include "base/cpu.h"

namespace rbln {
namespace {

// About 20 to 50 microseconds: longer than a balanced team ever waits, shorter
// than a time slice.
constexpr int kSpins = 1000;

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Binds the calling thread to `cpus`, ascending.
void BindTo(std::span<const int> cpus) {
  if (cpus.empty()) return;
  cpu_set_t* set = CPU_ALLOC(cpus.back() + 1);
  const size_t bytes = CPU_ALLOC_SIZE(cpus.back() + 1);
  CPU_ZERO_S(bytes, set);
  for (const int cpu : cpus) CPU_SET_S(cpu, bytes, set);
  // Refusal is no error: an unpinned thread computes the same.
  pthread_setaffinity_np(pthread_self(), bytes, set);
  CPU_FREE(set);
}

}  // namespace

void Barrier::Wait() {
  if (count_ == 1) return;
  const uint32_t round = round_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) == count_ - 1) {
    arrived_.store(0, std::memory_order_relaxed);
    // Sequentially consistent with the sleeper's count and its look at the
    // round: either it sees the new round, or we see that it sleeps.
    round_.store(round + 1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0) round_.notify_all();
    return;
  }
  for (int spin = 0; spin < kSpins; ++spin) {
    if (round_.load(std::memory_order_acquire) != round) return;
    Pause();
  }
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  while (round_.load(std::memory_order_seq_cst) == round) round_.wait(round);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

ThreadTeam::ThreadTeam(int size, bool pin) : size_(size), barrier_(size) {
  const std::span<const int> cpus = AllowedCpus();
  // With CPUs to spare the scheduler knows better than we which are idle, and
  // two processes must not pile up on the same ones.
  pinned_ = pin && size > 1 && static_cast<int>(cpus.size()) == size;
  for (int thread = 1; thread < size; ++thread) {
    threads_.emplace_back([this, thread, cpus] {
      // Else it would stay where its maker may be bound to.
      BindTo(pinned_ ? cpus.subspan(thread, 1) : cpus);
      Loop(thread);
    });
  }
  if (pinned_) BindTo(cpus.first(1));
}

ThreadTeam::~ThreadTeam() {
  stop_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_seq_cst);
  generation_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  if (pinned_) BindTo(AllowedCpus());
}

void ThreadTeam::Run(const std::function<void(int)>& work) {
  if (size_ > 1) {
    work_ = &work;
    generation_.fetch_add(1, std::memory_order_seq_cst);
    generation_.notify_all();
  }
  work(0);
  barrier_.Wait();
}

void ThreadTeam::Loop(int thread) {
  uint32_t seen = 0;
  while (true) {
    for (int spin = 0; spin < kSpins; ++spin) {
      if (generation_.load(std::memory_order_acquire) != seen) break;
      Pause();
    }
    while (generation_.load(std::memory_order_seq_cst) == seen) {
      generation_.wait(seen);
    }
    seen = generation_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    (*work_)(thread);
    barrier_.Wait();
  }
}

void ParallelFor(int threads, int64_t count,
                 const std::function<void(int64_t)>& work) {
  std::atomic<int64_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::exception_ptr error;
  const auto loop = [&] {
    while (!failed.load(std::memory_order_relaxed)) {
      const int64_t index = next.fetch_add(1, std::memory_order_relaxed);
      if (index >= count) return;
      try {
        work(index);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        failed.store(true, std::memory_order_relaxed);
      }
    }
  };
  const int extra =
      static_cast<int>(std::min<int64_t>(threads, count)) - 1;
  std::vector<std::thread> pool;
  for (int i = 0; i < extra; ++i) pool.emplace_back(loop);
  loop();
  for (std::thread& thread : pool) thread.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace rbln
