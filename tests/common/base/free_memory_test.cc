// Which memory limit ReadFreeMemory finds, and its name, from copies of system files that the tests write.
#include "common/base/free_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan {
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

TEST_CASE("what can be swapped out or given back by the kernel is no reason to refuse", "[memory]") {
  const testing::TempFolder root;
  root.Write("proc/meminfo", std::string(kMeminfo) + "SwapTotal: 3000 kB\nSwapFree: 2000 kB\n");
  CHECK(ReadFreeMemory(root.path()).resident.left_bytes == (4000 + 2000) * 1024);
  CHECK(ReadFreeMemory(root.path()).resident.name == "this machine with its swap");
  root.Write("proc/self/cgroup", "0::/a\n");
  root.Write("sys/fs/cgroup/a/memory.max", "3000000\n");
  root.Write("sys/fs/cgroup/a/memory.current", "2500000\n");
  root.Write("sys/fs/cgroup/a/memory.stat", "anon 1600000\nslab_reclaimable 700000\nslab 800000\n");
  CHECK(ReadFreeMemory(root.path()).resident.left_bytes == 3000000 - (2500000 - 700000));
  root.Write("sys/fs/cgroup/a/memory.swap.current", "100000\n");
  root.Write("sys/fs/cgroup/a/memory.swap.max", "400000\n");
  CHECK(ReadFreeMemory(root.path()).resident.left_bytes == 3000000 - (2500000 - 700000) + 300000);
  root.Write("sys/fs/cgroup/a/memory.swap.max", "max\n");
  CHECK(ReadFreeMemory(root.path()).resident.left_bytes == 3000000 - (2500000 - 700000) + 2000 * 1024);
}

TEST_CASE("a control group that is held up above a size leaves no more than that", "[memory]") {
  const testing::TempFolder root;
  root.Write("proc/self/cgroup", "0::/a\n");
  root.Write("sys/fs/cgroup/a/memory.max", "max\n");
  root.Write("sys/fs/cgroup/a/memory.high", "3000000\n");
  root.Write("sys/fs/cgroup/a/memory.current", "2500000\n");
  CHECK(ReadFreeMemory(root.path()).resident.left_bytes == 500000);
  root.Write("sys/fs/cgroup/a/memory.max", "2800000\n");
  CHECK(ReadFreeMemory(root.path()).resident.left_bytes == 300000);
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

TEST_CASE("a limited address space is read with what is reserved of it and what is resident", "[memory]") {
  const testing::TempFolder root;
  root.Write("proc/self/statm", "90000 3000 2000 1 0 5 0\n");
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
  const rlimit limited{std::uint64_t{1} << 47, before.rlim_max};  // as much as a sanitizer may want
  REQUIRE(setrlimit(RLIMIT_AS, &limited) == 0);
  const AddressSpace space = ReadFreeMemory(root.path()).address_space;
  REQUIRE(setrlimit(RLIMIT_AS, &before) == 0);
  const auto page_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  CHECK(space.limit_bytes == limited.rlim_cur);
  CHECK(space.reserved_bytes == 90000 * page_bytes);
  CHECK(space.LeftBytes() == limited.rlim_cur - 3000 * page_bytes);
}

TEST_CASE("what the system says of this process is read", "[memory]") {
  const FreeMemory free = ReadFreeMemory();
  CHECK(free.resident.left_bytes > 0);
  CHECK(free.resident.left_bytes < kNone);
}

}  // namespace
}  // namespace capstan
