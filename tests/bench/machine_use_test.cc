// How the cores' time is divided, from made-up texts of /proc.
#include "bench/machine_use.h"

#include <chrono>

#include "tests/catch.h"

namespace capstan::bench {
namespace {

TEST_CASE("the machine's times are read from /proc/stat", "[bench]") {
  // user nice system idle iowait irq softirq steal guest guest_nice; guests are part of user
  const auto times = ParseMachineTimes("cpu  100 20 30 400 50 6 4 70 90 1\ncpu0 1 2 3 4 5 6 7 8 9 10\n", 100.0);
  REQUIRE(times);
  CHECK(times->busy == Approx(1.6));
  CHECK(times->idle == Approx(4.5));
  CHECK(times->host == Approx(0.7));
  CHECK_FALSE(ParseMachineTimes("", 100.0));
  CHECK_FALSE(ParseMachineTimes("cpu 1 2 3\n", 100.0));
  CHECK_FALSE(ParseMachineTimes("intr 1 2 3 4 5 6 7 8\n", 100.0));
}

TEST_CASE("a process's time has that of its ended children, whatever its name", "[bench]") {
  const auto process =
      ParseProcessTime("42 (a) S 7 (b) S 41 42 42 0 -1 4194304 1 2 3 4 100 20 3 4 20 0 1 0 99 8192 1\n", 100.0);
  REQUIRE(process);
  CHECK(process->id == 42);
  CHECK(process->parent == 41);
  CHECK(process->seconds == Approx(1.27));
  CHECK_FALSE(ParseProcessTime("", 100.0));
  CHECK_FALSE(ParseProcessTime("42 (a) S 41 42", 100.0));
}

TEST_CASE("the time of descendants has all of them and no other process", "[bench]") {
  const std::vector<ProcessTime> processes = {{1, 0, 100.0}, {5, 1, 1.0}, {9, 5, 2.0}, {6, 9, 4.0}, {7, 1, 50.0}};
  CHECK(SecondsOfDescendants(5, processes) == 6.0);
  CHECK(SecondsOfDescendants(9, processes) == 4.0);
  CHECK(SecondsOfDescendants(77, processes) == 0.0);
}

TEST_CASE("what neither this tree used nor nobody was taken by other processes and the host", "[bench]") {
  const MachineUse use =
      UseBetween({.busy = 10.0, .idle = 5.0, .host = 1.0}, {.busy = 16.0, .idle = 7.0, .host = 3.0}, 5.0);
  CHECK(use.available == 10.0);
  CHECK(use.ProcessesShare() == Approx(0.1));
  CHECK(use.HostShare() == Approx(0.2));
  CHECK(use.OthersShare() == Approx(0.3));
}

TEST_CASE("ticks that are counted early in one place make no share negative", "[bench]") {
  MachineUse use = UseBetween({}, {.busy = 1.0, .idle = 1.0, .host = 0.0}, 1.1);
  CHECK(use.ProcessesShare() == 0.0);
  use.Add({.available = 2.0, .busy = 1.5, .own = 1.0, .host = 0.0});
  CHECK(use.ProcessesShare() == Approx(0.1));
  CHECK(MachineUse{}.OthersShare() == 0.0);
}

TEST_CASE("a meter counts what this process computes", "[bench]") {
  const UseMeter meter;
  MachineUse use = meter.UseSoFar();
  for (int i = 0; use.own < 0.05 && i < 100'000; ++i) use = meter.UseSoFar();  // itself reads /proc
  CHECK(use.own >= 0.05);
  CHECK(use.available > 0.0);
}

}  // namespace
}  // namespace capstan::bench
