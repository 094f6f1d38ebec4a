#include <catch2/catch.hpp>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "tests/sim/cluster.h"

using namespace capstan;
using namespace capstan::sim;

namespace {

// The undisturbed run of one worker and one shard.
std::vector<float> Reference(ClusterOptions options) {
  options.shards = options.workers = 1;
  options.window_blocks = 16;
  options.loss = options.duplication = options.late = 0;
  options.worker_crashes = options.coordinator_crashes = options.shard_crashes = options.joins_and_leaves = 0;
  options.worker_pauses = 0;
  const Outcome outcome = RunCluster(options);
  INFO(outcome.violation);
  REQUIRE(outcome.finished);
  return outcome.weights;
}

// Every option follows from the seed.
ClusterOptions RandomOptions(std::uint64_t seed) {
  RandomStream random(seed, 2);
  const auto pick = [&](std::uint64_t bound) { return static_cast<std::uint32_t>(random.Below(bound)); };
  ClusterOptions options;
  options.seed = seed;
  options.shards = 1 + pick(3);
  options.workers = 1 + pick(4);
  options.slots = 1 + pick(6);
  options.steps = 3 + pick(4);
  options.block_elements = 2 + pick(3) * 3;
  options.window_blocks = pick(3) == 0 ? 1 : 1 + pick(6);
  options.clip_norm = pick(2) == 0 ? 0.0 : 1.5;
  options.empty_slots = pick(3) == 0;
  options.loss = pick(2) * 0.05 * random.Unit();
  options.duplication = pick(2) * 0.10 * random.Unit();
  options.late = pick(2) * 0.04 * random.Unit();
  options.worker_crashes = pick(2) * 6.0 * random.Unit();
  options.coordinator_crashes = pick(2) * 3.0 * random.Unit();
  options.shard_crashes = pick(4) == 0 ? 1.0 * random.Unit() : 0.0;
  options.joins_and_leaves = pick(2) * 4.0 * random.Unit();
  options.worker_pauses = pick(2) * 3.0 * random.Unit();
  options.calm_after = std::chrono::seconds(2 + pick(20));
  return options;
}

// What the final bits may depend on.
std::string ReferenceKey(const ClusterOptions& options) {
  return std::to_string(options.slots) + "/" + std::to_string(options.steps) + "/" +
         std::to_string(options.block_elements) + "/" + std::to_string(options.clip_norm) + "/" +
         std::to_string(options.empty_slots);
}

struct Totals {
  std::uint64_t messages = 0, lost = 0, doubled = 0, crashes = 0, pauses = 0, generations_beyond_first = 0;
  void Add(const Outcome& outcome) {
    messages += outcome.messages;
    lost += outcome.lost;
    doubled += outcome.doubled;
    crashes += outcome.crashes;
    pauses += outcome.pauses;
    generations_beyond_first += outcome.generations > 1 ? outcome.generations - 1 : 0;
  }
  std::string ToString() const {
    return std::to_string(messages) + " messages, " + std::to_string(lost) + " lost, " + std::to_string(doubled) +
           " doubled, " + std::to_string(crashes) + " crashes, " + std::to_string(pauses) + " pauses, " +
           std::to_string(generations_beyond_first) + " recoveries";
  }
};

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

TEST_CASE("lost, repeated, late messages and crashes of workers and coordinator leave the same bits", "[sim]") {
  // Seeds beyond the default are for long runs: CAPSTAN_SIM_RUNS=100000 sim_test.
  const char* wanted = std::getenv("CAPSTAN_SIM_RUNS");
  const char* first = std::getenv("CAPSTAN_SIM_SEED");
  const std::uint64_t runs = wanted != nullptr ? std::stoull(wanted) : 2000;
  const std::uint64_t start = first != nullptr ? std::stoull(first) : 1;
  std::map<std::string, std::vector<float>> references;
  Totals totals;
  for (std::uint64_t seed = start; seed < start + runs; ++seed) {
    const ClusterOptions options = RandomOptions(seed);
    const std::string key = ReferenceKey(options);
    if (!references.contains(key)) references[key] = Reference(options);
    const Outcome outcome = RunCluster(options);
    totals.Add(outcome);
    INFO("seed " << seed << ": " << outcome.violation);
    REQUIRE(outcome.violation.empty());
    REQUIRE(outcome.finished);
    REQUIRE(outcome.weights == references[key]);
  }
  std::printf("%llu runs: %s\n", static_cast<unsigned long long>(runs), totals.ToString().c_str());
  // A run set that met no trouble proves nothing.
  if (runs >= 1000) {
    CHECK(totals.crashes > runs);
    CHECK(totals.lost > runs);
    CHECK(totals.doubled > runs);
    CHECK(totals.generations_beyond_first > runs / 100);
  }
}

TEST_CASE(
    "async: every push counts exactly once on every block, under loss, repetition, delay and crashes of workers and "
    "coordinator",
    "[sim][async]") {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    ClusterOptions options = RandomOptions(seed);
    options.mode = Mode::kAsync;
    options.shard_crashes = 0;
    const Outcome outcome = RunCluster(options);
    INFO("seed " << seed << ": " << outcome.violation);
    REQUIRE(outcome.violation.empty());
    REQUIRE(outcome.finished);
    std::set<std::uint64_t> steps;  // a new coordinator may report the newest ones again
    for (const server::StepRecord& record : outcome.records) steps.insert(record.step.value);
    REQUIRE(steps.size() == options.steps);
  }
}
