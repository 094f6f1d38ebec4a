#include <catch2/catch.hpp>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "tests/sim/options.h"

using namespace capstan;
using namespace capstan::sim;

namespace {

std::vector<float> Reference(const ClusterOptions& options) {
  const Outcome outcome = RunCluster(Undisturbed(options));
  INFO(outcome.violation);
  REQUIRE(outcome.finished);
  return outcome.weights;
}

using Counts = std::map<std::string, std::uint64_t>;

void Add(const Counts& counts, Counts* totals) {
  for (const auto& [name, count] : counts) (*totals)[name] += count;
}

}  // namespace

TEST_CASE("an undisturbed job ends, and with the same bits for any number of workers and shards", "[sim]") {
  ClusterOptions options;
  options.slots = 5;
  options.clip_norm = 2.0;
  const std::vector<float> reference = Reference(options);
  for (std::uint32_t workers : {1U, 2U, 3U, 5U, 7U}) {
    for (std::uint32_t shards : {1U, 2U, 3U, 12U}) {
      options.workers = workers;
      options.shards = shards;
      const Outcome outcome = RunCluster(options);
      INFO("workers " << workers << " shards " << shards << ": " << outcome.violation);
      REQUIRE(outcome.finished);
      REQUIRE(outcome.weights == reference);
    }
  }
}

TEST_CASE("lost, repeated, late messages, crashes, pauses, partitions and bad disks leave the same bits", "[sim]") {
  // Seeds beyond the default are for long runs: CAPSTAN_SIM_RUNS=100000 sim_test.
  const char* wanted = std::getenv("CAPSTAN_SIM_RUNS");
  const char* first = std::getenv("CAPSTAN_SIM_SEED");
  const std::uint64_t runs = wanted != nullptr ? std::stoull(wanted) : 2000;
  const std::uint64_t start = first != nullptr ? std::stoull(first) : 1;
  std::map<std::string, std::vector<float>> references;
  Counts totals;
  for (std::uint64_t seed = start; seed < start + runs; ++seed) {
    const ClusterOptions options = RandomOptions(seed);
    const std::string key = ReferenceKey(options);
    if (!references.contains(key)) references[key] = Reference(options);
    const Outcome outcome = RunCluster(options);
    Add(outcome.counts, &totals);
    INFO("seed " << seed << ": " << outcome.violation);
    REQUIRE(outcome.violation.empty());
    REQUIRE(outcome.finished);
    REQUIRE(outcome.weights == references[key]);
  }
  for (const auto& [name, count] : totals) {
    std::printf("%12llu %s\n", static_cast<unsigned long long>(count), name.c_str());
  }
  // A run set that met no trouble proves nothing.
  if (runs >= 1000) {
    for (const char* name : {"worker crashes", "coordinator crashes", "shard crashes", "messages lost"}) {
      INFO(name);
      CHECK(totals[name] > runs);
    }
    for (const char* name :
         {"crashes of all", "fewer shards", "more shards", "zombie coordinators", "partitions", "full disks",
          "snapshots damaged", "snapshots found unusable", "snapshots given up", "snapshots taken", "recoveries",
          "steps redone", "steps skipped", "leases lost", "pushes of another life refused",
          "equal pushes compared and ignored", "coordinator dies between RECOVER and RUNNING",
          "disk work done, shard dead before it knew"}) {
      INFO(name);
      CHECK(totals[name] > runs / 1000);
    }
  }
}

TEST_CASE(
    "async: every push counts exactly once on every block, under loss, repetition, delay, crashes and bad disks",
    "[sim][async]") {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    ClusterOptions options = RandomOptions(seed);
    options.mode = Mode::kAsync;
    const Outcome outcome = RunCluster(options);
    INFO("seed " << seed << ": " << outcome.violation);
    REQUIRE(outcome.violation.empty());
    REQUIRE(outcome.finished);
    std::set<std::uint64_t> steps;  // a new coordinator may report the newest ones again
    for (const server::StepRecord& record : outcome.records) steps.insert(record.step.value);
    REQUIRE(steps.size() == options.steps);
  }
}
