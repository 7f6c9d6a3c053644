// Where threads go on machines with several NUMA nodes.
#include <doctest/doctest.h>

#include <filesystem>

#include "base/cpu.h"
#include "base/threads.h"
#include "test_util.h"

namespace rbln {
namespace {

using Places = std::vector<std::vector<int>>;

TEST_CASE("threads are placed one on a CPU, or on the nodes of their group") {
  const Places one_node = {{0, 1, 2, 3}};
  const Places two_nodes = {{0, 2, 4, 6}, {1, 3, 5, 7}};
  CHECK(PlaceThreads(4, 1, one_node) == Places{{0}, {1}, {2}, {3}});
  CHECK(PlaceThreads(2, 1, one_node).empty());
  CHECK(PlaceThreads(2, 2, one_node).empty());
  CHECK(PlaceThreads(1, 1, {{5}}).empty());
  // A group's threads are neighbours: they share a node.
  CHECK(PlaceThreads(8, 2, two_nodes) ==
        Places{{0}, {2}, {4}, {6}, {1}, {3}, {5}, {7}});
  CHECK(PlaceThreads(4, 2, two_nodes) ==
        Places{two_nodes[0], two_nodes[0], two_nodes[1], two_nodes[1]});
  CHECK(PlaceThreads(4, 4, two_nodes) ==
        Places{two_nodes[0], two_nodes[0], two_nodes[1], two_nodes[1]});
  CHECK(PlaceThreads(2, 1, two_nodes).empty());
  // Two groups on four nodes have two each.
  CHECK(PlaceThreads(2, 2, {{0, 1}, {2, 3}, {4, 5}, {6, 7}}) ==
        Places{{0, 1, 2, 3}, {4, 5, 6, 7}});
}

TEST_CASE("CPUs are listed by node") {
  const TempDir temp;
  const std::vector<int> all = AllowedCpus();
  // No node is known: all are on one.
  CHECK(CpusByNode(temp / "none") == Places{all});
  std::filesystem::create_directories(temp / "node0");
  std::filesystem::create_directories(temp / "node10");
  std::filesystem::create_directories(temp / "node2");
  std::filesystem::create_directories(temp / "possible");
  WriteTestFile(temp / "node0/cpulist", "0,100000-200000\n");
  WriteTestFile(temp / "node2/cpulist", "\n");
  WriteTestFile(temp / "node10/cpulist", "1-99999\n");
  Places want;
  for (const int cpu : all) {
    const size_t node = cpu == 0 || cpu >= 100000 ? 0 : 1;
    want.resize(std::max(want.size(), node + 1));
    want[node].push_back(cpu);
  }
  std::erase_if(want,
                [](const std::vector<int>& node) { return node.empty(); });
  CHECK(CpusByNode(temp.path()) == want);
}

}  // namespace
}  // namespace rbln
