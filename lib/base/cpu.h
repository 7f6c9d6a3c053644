// What this process may use of the machine: instruction sets, cores, memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rbln {

// How many threads to run, and why.
struct CpuGrant {
  int threads = 1;
  std::string reason;  // "2 of 64 cores: cgroup quota"
};

// The smaller of the CPU affinity and the cgroup quota (v1 or v2, at any level
// of the hierarchy; rounded down, at least one).
CpuGrant GrantedCpus();

// The CPUs of this process's affinity mask, ascending, as it was when this was
// first called: the threads of a ThreadTeam have masks of their own.
const std::vector<int>& AllowedCpus();

// The CPUs of AllowedCpus by NUMA node, nodes without any left out; one node
// where the system tells of none. `sysfs` for tests.
std::vector<std::vector<int>> CpusByNode(
    const std::string& sysfs = "/sys/devices/system/node");

// The processor's name, as the kernel gives it; empty where it gives none.
std::string CpuModel();

struct MemoryGrant {
  uint64_t bytes = 0;  // that can be taken now without paging
  std::string reason;  // "cgroup limit", "available on this machine"
};

// The smaller of what the kernel calls available and what the cgroup leaves.
MemoryGrant AvailableMemory();

// Peak resident set of this process, in bytes.
uint64_t PeakMemory();

}  // namespace rbln
