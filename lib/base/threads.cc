#include "base/threads.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
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

// Sleeps until woken, unless `word` is no longer `value`; may wake for nothing.
// Not std::atomic's wait, which yields before it sleeps: on a busy machine a
// thread that yields gives away whole time slices, and one that sleeps is woken
// into what is left of its own.
static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
void SleepWhile(const std::atomic<uint32_t>& word, uint32_t value) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void WakeAll(const std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

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

void Barrier::Wait() {
  if (count_ == 1) return;
  const uint32_t round = round_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) == count_ - 1) {
    arrived_.store(0, std::memory_order_relaxed);
    // Sequentially consistent with the sleeper's count and its look at the
    // round: either it sees the new round, or we see that it sleeps.
    round_.store(round + 1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0) WakeAll(round_);
    return;
  }
  for (int spin = 0; spin < kSpins; ++spin) {
    if (round_.load(std::memory_order_acquire) != round) return;
    Pause();
  }
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  while (round_.load(std::memory_order_seq_cst) == round) {
    SleepWhile(round_, round);
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

std::vector<std::vector<int>> PlaceThreads(
    int threads, int groups, const std::vector<std::vector<int>>& nodes) {
  std::vector<std::vector<int>> places;
  std::vector<int> cpus;
  for (const std::vector<int>& node : nodes) {
    cpus.insert(cpus.end(), node.begin(), node.end());
  }
  if (threads == 1 && groups == 1) return places;
  if (static_cast<int>(cpus.size()) == threads) {
    for (const int cpu : cpus) places.push_back({cpu});
    return places;
  }
  const int count = static_cast<int>(nodes.size());
  if (groups == 1 || count == 1) return places;
  for (int group = 0; group < groups; ++group) {
    const Range of_group = Share(count, group, groups);
    std::vector<int> place;
    // At least one: where groups are more than nodes, several share it.
    const int64_t first = std::min<int64_t>(of_group.begin, count - 1);
    for (int64_t node = first; node < std::max(of_group.end, first + 1);
         ++node) {
      place.insert(place.end(), nodes[node].begin(), nodes[node].end());
    }
    std::sort(place.begin(), place.end());
    const Range members = Share(threads, group, groups);
    for (int64_t i = members.begin; i < members.end; ++i) {
      places.push_back(place);
    }
  }
  return places;
}

ThreadTeam::ThreadTeam(int size, bool pin)
    : ThreadTeam(size, pin ? PlaceThreads(size, 1, CpusByNode())
                           : std::vector<std::vector<int>>{}) {}

ThreadTeam::ThreadTeam(int size, std::vector<std::vector<int>> places)
    : size_(size), places_(std::move(places)), barrier_(size) {
  for (int thread = 1; thread < size; ++thread) {
    threads_.emplace_back([this, thread] {
      // Else it would stay where its maker may be bound to.
      BindTo(places_.empty() ? AllowedCpus() : places_[thread]);
      Loop(thread);
    });
  }
  if (!places_.empty()) BindTo(places_[0]);
}

ThreadTeam::~ThreadTeam() {
  stop_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_seq_cst);
  WakeAll(generation_);
  for (std::thread& thread : threads_) thread.join();
  if (!places_.empty()) BindTo(AllowedCpus());
}

void ThreadTeam::Run(const std::function<void(int)>& work) {
  if (size_ > 1) {
    work_ = &work;
    generation_.fetch_add(1, std::memory_order_seq_cst);
    WakeAll(generation_);
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
      SleepWhile(generation_, seen);
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
  const int extra = static_cast<int>(std::min<int64_t>(threads, count)) - 1;
  std::vector<std::thread> pool;
  for (int i = 0; i < extra; ++i) pool.emplace_back(loop);
  loop();
  for (std::thread& thread : pool) thread.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace rbln
