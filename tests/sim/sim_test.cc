#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <string>

#include "tests/catch.h"
#include "tests/sim/judge.h"
#include "tests/sim/markers.h"

using namespace capstan;
using namespace capstan::sim;

namespace {

constexpr bool kSanitized = CAPSTAN_SANITIZED;
// Under sanitizers a tenth of the time is all there is; what they look for, few jobs show.
constexpr std::uint64_t kRuns = kSanitized ? 150 : 10000, kAsyncRuns = kSanitized ? 30 : 4000,
                        kBoundedRuns = kSanitized ? 20 : 4000, kAllReduceRuns = kSanitized ? 30 : 4000,
                        kLocalRuns = kSanitized ? 30 : 3000;

// A run set is repeated, or made longer, by CAPSTAN_SIM_SEED=20001 CAPSTAN_SIM_RUNS=100000 sim_test.
std::uint64_t FromEnvironment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::stoull(text) : otherwise;
}

// Others every time.
std::uint64_t FreshSeed() {
  std::random_device random;
  return FromEnvironment("CAPSTAN_SIM_SEED", std::uint64_t{random()} << 20);
}

enum class Acknowledged { kReceived, kDurable };

void TrySeeds(Mode mode, std::uint64_t runs, Acknowledged acknowledged = Acknowledged::kReceived) {
  const bool durable = acknowledged == Acknowledged::kDurable;
  Judge judge;
  RunName name;
  name.mode = mode;
  name.durable = durable;
  name.seed = FreshSeed();
  std::printf("seeds from %llu on\n", static_cast<unsigned long long>(name.seed));
  for (std::uint64_t i = 0; i < runs; ++i, ++name.seed) {
    const std::string problem = judge.Try(name);
    INFO("seed " << name.seed << ": " << problem);
    REQUIRE(problem.empty());
  }
  for (const auto& [what, count] : judge.counts()) {
    std::printf("%12llu %s\n", static_cast<unsigned long long>(count), what.c_str());
  }
  // A run set that met no trouble proves nothing.
  if (runs < 4000) return;
  for (const std::string& marker : MarkerNames(mode, durable)) {
    const auto count = judge.counts().find(marker);
    INFO(marker);
    CHECK((count != judge.counts().end() && count->second > 0));
  }
}

}  // namespace

TEST_CASE("an undisturbed job ends, and with the same bits for any number of workers and shards", "[sim]") {
  ClusterOptions options;
  options.slots = 5;
  options.clip_norm = 2.0;
  const std::vector<float> reference = RunCluster(Undisturbed(options)).weights;
  REQUIRE(!reference.empty());
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

TEST_CASE("one seed is one course of events", "[sim]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::string first, second;
    (void)Judge().Try({seed}, nullptr, [&](const std::string& line) { first += line + "\n"; });
    (void)Judge().Try({seed}, nullptr, [&](const std::string& line) { second += line + "\n"; });
    REQUIRE(!first.empty());
    REQUIRE(first == second);
  }
}

TEST_CASE("what failed once does not fail again", "[sim][failed]") {
  const std::vector<RunName> names = ReadFailedSeeds(CAPSTAN_SIM_FAILED_SEEDS);
  REQUIRE(!names.empty());
  Judge judge;
  for (const RunName& name : names) {
    const std::string problem = judge.Try(name);
    INFO("seed " << name.seed << ": " << problem);
    CHECK(problem.empty());
  }
}

TEST_CASE("every marker is a case of the table", "[sim]") {
  std::ifstream file(CAPSTAN_SIM_CORNER_CASES);
  const std::string table{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  REQUIRE(!table.empty());
  for (Mode mode : {Mode::kSync, Mode::kAsync, Mode::kBounded, Mode::kAllReduce}) {
    for (bool durable : {false, true}) {
      for (const std::string& marker : MarkerNames(mode, durable)) {
        INFO(marker);
        CHECK(table.find(marker) != std::string::npos);
      }
    }
  }
}

TEST_CASE("whatever befalls the processes, their network, disks and clocks leaves the same bits", "[sim]") {
  TrySeeds(Mode::kSync, FromEnvironment("CAPSTAN_SIM_RUNS", kRuns));
}

TEST_CASE("the same where one worker pushes for its machine, and breaks off or is gone", "[sim][local]") {
  Judge judge;
  RunName name;
  name.local = true;
  name.seed = FreshSeed();
  std::printf("seeds from %llu on\n", static_cast<unsigned long long>(name.seed));
  const std::uint64_t runs = FromEnvironment("CAPSTAN_SIM_RUNS", kLocalRuns);
  for (std::uint64_t i = 0; i < runs; ++i, ++name.seed) {
    const std::string problem = judge.Try(name);
    INFO("seed " << name.seed << ": " << problem);
    REQUIRE(problem.empty());
  }
  if (runs < 1000) return;
  for (const char* marker :
       {"worker pushed for its machine", "worker broke off pushing for its machine",
        "worker pushes by itself, its machine's group knows", "worker cannot be reached by its machine's group",
        "worker pushes by itself, because another one of its machine has done so",
        "local group broken for want of a member", "local group broken after the gradients were handed over",
        "local group changed in the middle of a round"}) {
    const auto count = judge.counts().find(marker);
    INFO(marker);
    CHECK((count != judge.counts().end() && count->second > 0));
  }
}

TEST_CASE("whichever worker gives the first weights, all of them are its own", "[sim][given]") {
  ClusterOptions options;
  options.given = true;
  options.given_kinds = 3;
  std::set<std::vector<float>> references;
  for (options.given_from = 0; options.given_from < 3; ++options.given_from) {
    references.insert(RunCluster(Undisturbed(options)).weights);
  }
  REQUIRE(references.size() == 3);
  options.given_from = 0;
  options.worker_crashes = 6.0;
  options.shard_crashes = 1.0;
  options.coordinator_crashes = 1.0;
  options.slow_disk = 0.5;
  options.late = 0.05;
  std::set<std::vector<float>> ends;
  for (options.seed = 1; options.seed <= (kSanitized ? 30 : 300); ++options.seed) {
    const Outcome outcome = RunCluster(options);
    INFO("seed " << options.seed << ": " << outcome.violation);
    REQUIRE(outcome.finished);
    REQUIRE(references.contains(outcome.weights));
    ends.insert(outcome.weights);
  }
  CHECK(ends.size() == 3);
}

TEST_CASE("async: whatever befalls them, every push counts exactly once on every block", "[sim][async]") {
  TrySeeds(Mode::kAsync, FromEnvironment("CAPSTAN_SIM_RUNS", kAsyncRuns));
}

TEST_CASE("bounded: the same, and no slot is further ahead than the staleness allows", "[sim][bounded]") {
  TrySeeds(Mode::kBounded, FromEnvironment("CAPSTAN_SIM_RUNS", kBoundedRuns));
}

TEST_CASE("allreduce: whatever befalls them, a version is made of the one before and one sum of all slots",
          "[sim][allreduce]") {
  TrySeeds(Mode::kAllReduce, FromEnvironment("CAPSTAN_SIM_RUNS", kAllReduceRuns));
}

TEST_CASE("durable: the same, and what was acknowledged is never lost unless it is said", "[sim][durable]") {
  TrySeeds(Mode::kAsync, FromEnvironment("CAPSTAN_SIM_RUNS", kAsyncRuns), Acknowledged::kDurable);
  TrySeeds(Mode::kBounded, FromEnvironment("CAPSTAN_SIM_RUNS", kBoundedRuns), Acknowledged::kDurable);
}
