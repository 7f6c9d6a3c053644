#include "cluster/world.h"

#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <list>

#include "base/console.h"
#include "base/cpu.h"
#include "base/error.h"

#if defined(RBLN_MPI)
#include <mpi.h>
#endif

namespace rbln {
namespace {

// Set by the launchers for each process they start: Open MPI's, and those that
// speak PMI-1, PMI-2 or PMIx (MPICH's, Intel's, Slurm's).
struct Launched {
  const char* rank = nullptr;
  const char* size = nullptr;
};
Launched FindLauncher() {
  for (const auto& [rank, size] :
       {std::pair{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
        std::pair{"PMI_RANK", "PMI_SIZE"},
        std::pair{"PMIX_RANK", "SLURM_NTASKS"}}) {
    Launched launched{std::getenv(rank), std::getenv(size)};
    if (launched.rank != nullptr && launched.size != nullptr) return launched;
  }
  return {};
}

}  // namespace

int World::LaunchedRank() {
  const Launched launched = FindLauncher();
  return launched.rank == nullptr ? 0 : std::atoi(launched.rank);
}

#if defined(RBLN_MPI)
namespace {

using Clock = std::chrono::steady_clock;

class MpiWorld : public World {
 public:
  explicit MpiWorld(double patience) : World(patience) {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm local;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_,
                        MPI_INFO_NULL, &local);
    MPI_Comm_size(local, &local_size_);
    // Launchers bind processes to the same CPUs or to different ones.
    const int first_cpu = AllowedCpus().empty() ? 0 : AllowedCpus().front();
    std::vector<int> first_cpus(local_size_);
    MPI_Allgather(&first_cpu, 1, MPI_INT, first_cpus.data(), 1, MPI_INT, local);
    sharers_ = static_cast<int>(
        std::count(first_cpus.begin(), first_cpus.end(), first_cpu));
    MPI_Comm_free(&local);
    char name[MPI_MAX_PROCESSOR_NAME] = {};
    int length = 0;
    MPI_Get_processor_name(name, &length);
    std::vector<char> names(size_t{MPI_MAX_PROCESSOR_NAME} * size_);
    MPI_Allgather(name, MPI_MAX_PROCESSOR_NAME, MPI_CHAR, names.data(),
                  MPI_MAX_PROCESSOR_NAME, MPI_CHAR, MPI_COMM_WORLD);
    for (int rank = 0; rank < size_; ++rank) {
      names_.emplace_back(names.data() + size_t{MPI_MAX_PROCESSOR_NAME} * rank);
    }
  }
  ~MpiWorld() override {
    WaitFor([this] { return Reap(), sending_.empty(); }, patience());
    MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_size() const override { return local_size_; }
  int sharers() const override { return sharers_; }
  std::string Name(int rank) const override {
    return fmt::format("rank {} ({})", rank, names_[rank]);
  }

  int Min(int value, int begin, int end) override {
    const int count = end - begin;
    std::vector<int> values(count, value);
    std::vector<std::span<const std::byte>> send(
        count, std::as_bytes(std::span(&value, 1)));
    std::vector<std::span<std::byte>> recv;
    for (int& one : values) {
      recv.push_back(std::as_writable_bytes(std::span(&one, 1)));
    }
    ExchangeTagged(begin, send, recv, Tag::kAgree);
    for (const int one : values) value = std::min(value, one);
    return value;
  }

  void Exchange(int begin, std::span<const std::span<const std::byte>> send,
                std::span<const std::span<std::byte>> recv) override {
    ExchangeTagged(begin, send, recv, Tag::kExchange);
  }

  void Send(int to, Tag tag, std::vector<std::byte> message) override {
    Reap();
    Sending& sending = sending_.emplace_back();
    sending.message = std::move(message);
    MPI_Isend(sending.message.data(), Count(sending.message.size()), MPI_BYTE,
              to, static_cast<int>(tag), MPI_COMM_WORLD, &sending.request);
  }

  std::optional<Packet> Poll(int from, Tag tag) override {
    Reap();
    int come = 0;
    MPI_Message handle;
    MPI_Status status;
    MPI_Improbe(from < 0 ? MPI_ANY_SOURCE : from, static_cast<int>(tag),
                MPI_COMM_WORLD, &come, &handle, &status);
    if (!come) return std::nullopt;
    int count = 0;
    MPI_Get_count(&status, MPI_BYTE, &count);
    Packet packet{status.MPI_SOURCE, std::vector<std::byte>(count)};
    // It may still be on its way.
    MPI_Request request;
    MPI_Imrecv(packet.bytes.data(), count, MPI_BYTE, &handle, &request);
    WaitAll({&request, 1}, {&packet.from, 1});
    return packet;
  }

  bool WaitFor(const std::function<bool()>& done, double seconds) override {
    const Clock::time_point start = Clock::now();
    for (int64_t tries = 0;; ++tries) {
      if (done()) return true;
      if (tries < kSpins) continue;
      const std::chrono::duration<double> waited = Clock::now() - start;
      if (waited.count() >= seconds) return false;
      // Somebody else may be what we wait for, on this very CPU.
      if (waited.count() < kYieldSeconds) {
        sched_yield();
      } else {
        usleep(200);
      }
    }
  }

  [[noreturn]] void Abort(int exit_code, const std::string& message) override {
    Say("rbln-tool: " + message + "\n");
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    _exit(exit_code);
  }

 private:
  static constexpr int kSpins = 200;
  static constexpr double kYieldSeconds = 0.005;

  struct Sending {
    std::vector<std::byte> message;
    MPI_Request request;
  };

  static int Count(size_t bytes) {
    if (bytes > static_cast<size_t>(std::numeric_limits<int>::max())) {
      throw ResourceError("a message of {} bytes is too large", bytes);
    }
    return static_cast<int>(bytes);
  }

  // Forgets what has been sent.
  void Reap() {
    for (auto at = sending_.begin(); at != sending_.end();) {
      int done = 0;
      MPI_Test(&at->request, &done, MPI_STATUS_IGNORE);
      at = done ? sending_.erase(at) : std::next(at);
    }
  }

  // Waits for requests, of which each is with `peers` of the same place.
  void WaitAll(std::span<MPI_Request> requests, std::span<const int> peers) {
    const auto done = [&] {
      int all = 0;
      MPI_Testall(static_cast<int>(requests.size()), requests.data(), &all,
                  MPI_STATUSES_IGNORE);
      return all != 0;
    };
    if (WaitFor(done, patience())) return;
    for (size_t i = 0; i < requests.size(); ++i) {
      int one = 0;
      MPI_Test(&requests[i], &one, MPI_STATUS_IGNORE);
      if (!one) GiveUp(peers[i]);
    }
  }

  [[noreturn]] void GiveUp(int peer) {
    Abort(static_cast<int>(ErrorKind::kResource),
          fmt::format("{} has not answered {} for {:.0f} seconds; it is dead, "
                      "hangs, or cannot be reached",
                      Name(peer), Name(rank_), patience()));
  }

  void ExchangeTagged(int begin,
                      std::span<const std::span<const std::byte>> send,
                      std::span<const std::span<std::byte>> recv, Tag tag) {
    std::vector<MPI_Request> requests;
    std::vector<int> peers;
    const auto add = [&](int peer) {
      peers.push_back(peer);
      return &requests.emplace_back();
    };
    requests.reserve(send.size() + recv.size());
    for (size_t i = 0; i < recv.size(); ++i) {
      const int peer = begin + static_cast<int>(i);
      if (peer == rank_ || recv[i].empty()) continue;
      MPI_Irecv(recv[i].data(), Count(recv[i].size()), MPI_BYTE, peer,
                static_cast<int>(tag), MPI_COMM_WORLD, add(peer));
    }
    for (size_t i = 0; i < send.size(); ++i) {
      const int peer = begin + static_cast<int>(i);
      if (peer == rank_ || send[i].empty()) continue;
      MPI_Isend(send[i].data(), Count(send[i].size()), MPI_BYTE, peer,
                static_cast<int>(tag), MPI_COMM_WORLD, add(peer));
    }
    WaitAll(requests, peers);
  }

  int rank_ = 0;
  int size_ = 1;
  int local_size_ = 1;
  int sharers_ = 1;
  std::vector<std::string> names_;
  std::list<Sending> sending_;
};

}  // namespace

std::unique_ptr<World> World::Join(double patience) {
  const Launched launched = FindLauncher();
  if (launched.size == nullptr || std::atoi(launched.size) < 2) return nullptr;
  auto world = std::make_unique<MpiWorld>(patience);
  if (world->size() != std::atoi(launched.size)) {
    throw UsageError(
        "{} processes were started together, but the MPI library that "
        "rbln-tool was built with finds {}; start them with its own mpirun",
        launched.size, world->size());
  }
  return world;
}
#else
std::unique_ptr<World> World::Join(double) {
  const Launched launched = FindLauncher();
  if (launched.size == nullptr || std::atoi(launched.size) < 2) return nullptr;
  throw UsageError(
      "{} processes were started together, but this rbln-tool was built "
      "without MPI; build it where MPI is installed (libopenmpi-dev)",
      launched.size);
}
#endif

void RankTransport::Exchange(std::span<const std::span<const std::byte>> send,
                             std::span<const std::span<std::byte>> recv) {
  world_.Exchange(begin_, send, recv);
}

void RankTransport::Broadcast(std::vector<std::byte>* message) {
  if (rank() == 0) {
    for (int rank = 1; rank < ranks_; ++rank) {
      world_.Send(begin_ + rank, Tag::kBroadcast, *message);
    }
    return;
  }
  // Rank 0 may have nothing to do for as long as its job has no input.
  std::optional<World::Packet> packet;
  world_.WaitFor(
      [&] {
        return (packet = world_.Poll(begin_, Tag::kBroadcast)).has_value();
      },
      std::numeric_limits<double>::infinity());
  *message = std::move(packet->bytes);
}

}  // namespace rbln
