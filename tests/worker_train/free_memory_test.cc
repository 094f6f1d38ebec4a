// Made-up files of the system: what limits a process, and by which name.
#include "worker/train/free_memory.h"

#include <catch2/catch.hpp>

#include "tests/temp_folder.h"

namespace capstan::train {
namespace {

constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
constexpr const char* kMeminfo = "MemTotal:       9000 kB\nMemFree:         100 kB\nMemAvailable:   4000 kB\n";

TEST_CASE("a machine's available memory is a limit, and files that are missing are none", "[memory]") {
  const testing::TempFolder root;
  CHECK(ReadFreeMemory(root.path()).resident.left_bytes == kNone);
  root.Write("proc/meminfo", kMeminfo);
  const FreeMemory free = ReadFreeMemory(root.path());
  CHECK(free.resident.left_bytes == 4000 * 1024);
  CHECK(free.resident.name == "this machine");
}

TEST_CASE("the tightest of a process's control groups counts, without the files that it has cached", "[memory]") {
  const testing::TempFolder root;
  root.Write("proc/meminfo", kMeminfo);
  root.Write("proc/self/cgroup", "0::/jobs/mine\n");
  root.Write("sys/fs/cgroup/jobs/mine/memory.max", "max\n");
  root.Write("sys/fs/cgroup/jobs/mine/memory.current", "1000000\n");
  root.Write("sys/fs/cgroup/jobs/memory.max", "3000000\n");
  root.Write("sys/fs/cgroup/jobs/memory.current", "2500000\n");
  root.Write("sys/fs/cgroup/jobs/memory.stat", "anon 1600000\nfile 800000\nshmem 300000\n");
  const FreeMemory free = ReadFreeMemory(root.path());
  CHECK(free.resident.left_bytes == 3000000 - (2500000 - (800000 - 300000)));
  CHECK(free.resident.name == "the control group " + root.path("sys/fs/cgroup/jobs"));
}

TEST_CASE("control groups of version 1 count too, and one that has used more than its limit leaves nothing",
          "[memory]") {
  const testing::TempFolder root;
  root.Write("proc/self/cgroup", "12:cpu,cpuacct:/a\n7:memory:/a\n");
  root.Write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "5000\n");
  root.Write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "4000\n");
  root.Write("sys/fs/cgroup/memory/a/memory.stat", "cache 9\ntotal_cache 1000\ntotal_shmem 0\n");
  CHECK(ReadFreeMemory(root.path()).resident.left_bytes == 2000);
  root.Write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "6500\n");
  CHECK(ReadFreeMemory(root.path()).resident.left_bytes == 0);
}

TEST_CASE("what the system says of this process is read", "[memory]") {
  const FreeMemory free = ReadFreeMemory();
  CHECK(free.resident.left_bytes > 0);
  CHECK(free.resident.left_bytes < kNone);
}

}  // namespace
}  // namespace capstan::train
