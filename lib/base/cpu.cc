#include "base/cpu.h"

#include <fmt/core.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <sstream>

namespace rbln {
namespace {

std::optional<std::string> ReadLine(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  if (!std::getline(in, line)) return std::nullopt;
  return line;
}

std::optional<uint64_t> ReadNumber(const std::string& path) {
  std::optional<std::string> line = ReadLine(path);
  if (!line || line->empty() || !std::isdigit(line->front())) {
    return std::nullopt;  // absent, or "max"
  }
  return std::strtoull(line->c_str(), nullptr, 10);
}

// The directories of this process's cgroup for `controller`, from its own up
// to the root. Inside a container /proc/self/cgroup may name a path that is not
// visible; the root of the mount is then the container's own group.
std::vector<std::string> CgroupDirectories(const std::string& controller) {
  std::ifstream in("/proc/self/cgroup");
  std::string line, v1, v2;
  while (std::getline(in, line)) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (names == ",") v2 = path;
    if ((names + ",").find("," + controller + ",") != std::string::npos) {
      v1 = path;
    }
  }
  std::vector<std::string> result;
  const auto add = [&result](const std::string& root, std::string path) {
    while (path.size() > 1) {
      result.push_back(root + path);
      path.resize(std::max<size_t>(path.rfind('/'), 0));
    }
    result.push_back(root);
  };
  add("/sys/fs/cgroup", v2);
  if (!v1.empty()) add("/sys/fs/cgroup/" + controller, v1);
  return result;
}

// Cores granted by quota; infinity where none is set.
double QuotaCpus() {
  double quota = std::numeric_limits<double>::infinity();
  for (const std::string& dir : CgroupDirectories("cpu")) {
    if (std::optional<std::string> line = ReadLine(dir + "/cpu.max")) {
      std::istringstream in(*line);
      double limit = 0, period = 0;
      if (in >> limit >> period && period > 0) {
        quota = std::min(quota, limit / period);
      }
    }
    const auto limit = ReadNumber(dir + "/cpu.cfs_quota_us");  // "-1": none
    const auto period = ReadNumber(dir + "/cpu.cfs_period_us");
    if (limit && period && *period > 0) {
      quota = std::min(
          quota, static_cast<double>(*limit) / static_cast<double>(*period));
    }
  }
  return quota;
}

}  // namespace

namespace {

std::vector<int> ReadAffinity() {
  std::vector<int> cpus;
  // The mask may be larger than cpu_set_t on machines with many cores.
  for (int max_cpus = CPU_SETSIZE; max_cpus <= 1 << 20; max_cpus *= 2) {
    cpu_set_t* set = CPU_ALLOC(max_cpus);
    const size_t bytes = CPU_ALLOC_SIZE(max_cpus);
    const int rc = sched_getaffinity(0, bytes, set);
    if (rc == 0) {
      for (int cpu = 0; cpu < max_cpus; ++cpu) {
        if (CPU_ISSET_S(cpu, bytes, set)) cpus.push_back(cpu);
      }
    }
    CPU_FREE(set);
    if (rc == 0) break;
  }
  return cpus;
}

}  // namespace

const std::vector<int>& AllowedCpus() {
  static const std::vector<int> cpus = ReadAffinity();
  return cpus;
}

std::vector<std::vector<int>> CpusByNode(const std::string& sysfs) {
  std::vector<int> left = AllowedCpus();
  std::vector<std::vector<int>> nodes;
  std::error_code ignored;
  std::map<int, std::string> lists;  // by node number
  for (const auto& entry :
       std::filesystem::directory_iterator(sysfs, ignored)) {
    const std::string name = entry.path().filename();
    if (name.size() > 4 && name.starts_with("node") && std::isdigit(name[4])) {
      lists[std::atoi(name.c_str() + 4)] =
          ReadLine(entry.path() / "cpulist").value_or("");
    }
  }
  for (const auto& [number, list] : lists) {
    std::vector<int> node;
    // "0-3,8"
    std::istringstream in(list);
    for (std::string part; std::getline(in, part, ',');) {
      int first = 0, last = 0;
      const int fields = std::sscanf(part.c_str(), "%d-%d", &first, &last);
      if (fields < 1) continue;
      if (fields < 2) last = first;
      for (const int cpu : left) {
        if (cpu >= first && cpu <= last) node.push_back(cpu);
      }
    }
    std::erase_if(left, [&node](int cpu) {
      return std::find(node.begin(), node.end(), cpu) != node.end();
    });
    if (!node.empty()) nodes.push_back(std::move(node));
  }
  if (nodes.empty()) nodes.emplace_back();
  for (const int cpu : left) nodes.back().push_back(cpu);
  return nodes;
}

CpuGrant GrantedCpus() {
  const int online =
      std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  const int allowed = std::max(1, static_cast<int>(AllowedCpus().size()));
  const double quota = QuotaCpus();
  if (quota < allowed) {
    const int threads = std::max(1, static_cast<int>(quota));
    return {threads, fmt::format("{} of {} cores: cgroup quota of {:.2f}",
                                 threads, online, quota)};
  }
  if (allowed < online) {
    return {allowed,
            fmt::format("{} of {} cores: CPU affinity", allowed, online)};
  }
  return {allowed, fmt::format("{} cores", allowed)};
}

std::string CpuModel() {
  std::ifstream in("/proc/cpuinfo");
  std::string line;
  while (std::getline(in, line)) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "";
}

MemoryGrant AvailableMemory() {
  MemoryGrant grant{std::numeric_limits<uint64_t>::max(), "no limit known"};
  std::ifstream in("/proc/meminfo");
  std::string key;
  uint64_t kilobytes = 0;
  std::string unit;
  while (in >> key >> kilobytes && std::getline(in, unit)) {
    if (key == "MemAvailable:") {
      grant = {kilobytes * 1024, "available on this machine"};
    }
  }
  const auto consider = [&grant](std::optional<uint64_t> limit,
                                 std::optional<uint64_t> used) {
    if (!limit || !used) return;
    const uint64_t left = *limit > *used ? *limit - *used : 0;
    if (left < grant.bytes) grant = {left, "left by the cgroup limit"};
  };
  for (const std::string& dir : CgroupDirectories("memory")) {
    // Page cache is counted as used but is given back on demand.
    uint64_t cache = 0;
    std::ifstream stat(dir + "/memory.stat");
    uint64_t value = 0;
    while (stat >> key >> value) {
      if (key == "inactive_file" || key == "active_file") cache += value;
    }
    const auto used = [&](const char* file) -> std::optional<uint64_t> {
      const std::optional<uint64_t> bytes = ReadNumber(dir + file);
      if (!bytes) return std::nullopt;
      return *bytes > cache ? *bytes - cache : 0;
    };
    consider(ReadNumber(dir + "/memory.max"), used("/memory.current"));
    consider(ReadNumber(dir + "/memory.limit_in_bytes"),
             used("/memory.usage_in_bytes"));
  }
  return grant;
}

uint64_t PeakMemory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace rbln
