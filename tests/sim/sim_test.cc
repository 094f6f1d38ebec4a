
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/sim/judge.h"
#include "tests/sim/marker_table.h"
#include "tests/sim/seed_list.h"
#include "tests/tier.h"

using namespace capstan;
using namespace capstan::sim;

namespace {

constexpr bool kSanitized = CAPSTAN_SANITIZED;

// A kind of jobs, and how many of them each tier runs. With sanitizers a job takes about ten times as long, so a build
// with sanitizers runs fewer.
struct Kind {
  RunName name;
  std::uint64_t quick, normal, all, sanitized;
};
constexpr Kind kSync{{}, 100, 2000, 16000, 150};
constexpr Kind kLocal{{.local = true}, 30, 500, 70000, 30};
constexpr Kind kMedian{{.median = true}, 30, 300, 4000, 20};
constexpr Kind kExternal{{.external = true}, 40, 600, 8000, 30};
constexpr Kind kShared{{.shared = true}, 30, 400, 8000, 20};
constexpr Kind kSharedAsync{{.mode = Mode::kAsync, .shared = true}, 20, 200, 4000, 10};
constexpr Kind kAsync{{.mode = Mode::kAsync}, 40, 800, 4000, 30};
constexpr Kind kBounded{{.mode = Mode::kBounded}, 40, 800, 4000, 20};
constexpr Kind kAllReduce{{.mode = Mode::kAllReduce}, 40, 800, 12000, 30};
constexpr Kind kDurableAsync{{.mode = Mode::kAsync, .durable = true}, 25, 500, 4000, 30};
constexpr Kind kDurableBounded{{.mode = Mode::kBounded, .durable = true}, 25, 500, 4000, 30};
constexpr Kind kOldSync{{.old = true}, 3, 50, 1000, 5};
constexpr Kind kOldAsync{{.mode = Mode::kAsync, .old = true}, 3, 50, 1000, 5};
constexpr Kind kOldBounded{{.mode = Mode::kBounded, .old = true}, 2, 20, 1000, 5};
constexpr Kind kOldDurable{{.mode = Mode::kAsync, .durable = true, .old = true}, 2, 20, 1000, 5};
constexpr Kind kOldAllReduce{{.mode = Mode::kAllReduce, .old = true}, 2, 20, 1000, 5};
constexpr Kind kSlowSync{{.slow_lines = true}, 40, 200, 2000, 10};
constexpr Kind kSlowAsync{{.mode = Mode::kAsync, .slow_lines = true}, 40, 200, 2000, 10};
constexpr Kind kKinds[] = {kShared,   kSharedAsync, kSync,       kLocal,        kMedian,         kExternal,
                           kAsync,    kBounded,     kAllReduce,  kDurableAsync, kDurableBounded, kOldSync,
                           kOldAsync, kOldBounded,  kOldDurable, kOldAllReduce, kSlowSync,       kSlowAsync};

std::uint64_t RunsInTier(const Kind& kind) {
  if (kSanitized) return kind.sanitized;
  switch (testing::TestTier()) {
    case testing::Tier::kQuick: return kind.quick;
    case testing::Tier::kDefault: return kind.normal;
    case testing::Tier::kAll: return kind.all;
  }
  return kind.all;
}

// The environment can choose another set of jobs: CAPSTAN_SIM_RUNS sets how many jobs of each kind run, and
// CAPSTAN_SIM_SEED their first seed.
std::uint64_t RunsOf(const Kind& kind) { return testing::NumberFromEnvironment("CAPSTAN_SIM_RUNS", RunsInTier(kind)); }

std::uint64_t FirstSeed() {
  return testing::NumberFromEnvironment("CAPSTAN_SIM_SEED", (std::uint64_t{testing::TestSeed()} << 20) + 1);
}

void TryOne(Judge* judge, const RunName& name) {
  const std::string problem = judge->Try(name);
  INFO(Command(name) << ": " << problem);
  REQUIRE(problem.empty());
}

// Checks that the jobs met their cases, because jobs that met no fault prove nothing. A small set must meet only the
// frequent cases.
void CheckMarkers(const Judge& judge, const RunName& name, std::uint64_t runs) {
  for (const Marker& marker : MarkersOf(name)) {
    if (!ExpectedWithin(marker, runs)) continue;
    const auto tally = judge.counts().find(marker.name);
    INFO(marker.name);
    CHECK((tally != judge.counts().end() && tally->second.jobs > 0));
  }
}

void TrySeeds(const Kind& kind) {
  const std::uint64_t runs = RunsOf(kind);
  RunName name = kind.name;
  name.seed = FirstSeed();
  std::printf("%llu jobs from \"%s\" on\n", static_cast<unsigned long long>(runs), Command(name).c_str());
  Judge judge;
  for (std::uint64_t i = 0; i < runs; ++i, ++name.seed) TryOne(&judge, name);
  PrintCounts(judge);
  CheckMarkers(judge, name, runs);
}

// Tries the runs of a list; in a build with sanitizers only every `stride`-th run.
void TryList(const std::string& path, std::size_t stride) {
  const Result<std::vector<ListedRun>> runs = ReadSeedList(path);
  INFO((runs.ok() ? path : runs.status().message()));
  REQUIRE(runs.ok());
  REQUIRE(!runs.value().empty());
  Judge judge;
  for (std::size_t i = 0; i < runs.value().size(); i += kSanitized ? stride : 1) {
    const ListedRun& run = runs.value()[i];
    const std::string problem = judge.Try(run.name);
    INFO(Command(run.name) << " (" << run.note << "): " << problem);
    CHECK(problem.empty());
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
  TryList(CAPSTAN_SIM_FOLDER "/failed_seeds.txt", 1);
}

TEST_CASE("the seeds that show broken rules show nothing where no rule is broken", "[sim][caught]") {
  TryList(CAPSTAN_SIM_FOLDER "/caught_seeds.txt", 12);
}

TEST_CASE("every marker is a case of the table", "[sim][markers]") {
  std::ifstream file(CAPSTAN_SIM_FOLDER "/CORNER_CASES.md");
  const std::string table{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  REQUIRE(!table.empty());
  for (const Kind& kind : kKinds) {
    for (const Marker& marker : MarkersOf(kind.name)) {
      INFO(marker.name);
      CHECK(table.find(marker.name) != std::string::npos);
    }
  }
}

TEST_CASE("tier all asks for every marker", "[sim][markers]") {
  for (const Kind& kind : kKinds) {
    for (const Marker& marker : MarkersOf(kind.name)) {
      INFO(ModeWord(kind.name) << ": " << marker.name);
      CHECK(ExpectedWithin(marker, kind.all));
    }
  }
}

TEST_CASE("whatever befalls the processes, their network, disks and clocks leaves the same bits", "[sim][sync]") {
  TrySeeds(kSync);
}

TEST_CASE("the same where one worker pushes for its machine, and breaks off or is gone", "[sim][local]") {
  TrySeeds(kLocal);
}

TEST_CASE("the same where the update takes the median of the slots' gradients", "[sim][median]") { TrySeeds(kMedian); }

TEST_CASE("the same where the optimizer stays in the programs, which all make the same versions", "[sim][external]") {
  TrySeeds(kExternal);
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
  const bool is_short = kSanitized || testing::TestTier() == testing::Tier::kQuick;
  for (options.seed = 1; options.seed <= (is_short ? 30 : 300); ++options.seed) {
    const Outcome outcome = RunCluster(options);
    INFO("seed " << options.seed << ": " << outcome.violation);
    REQUIRE(outcome.finished);
    REQUIRE(references.contains(outcome.weights));
    ends.insert(outcome.weights);
  }
  CHECK(ends.size() == 3);
}

TEST_CASE("async: whatever befalls them, every push counts exactly once on every block", "[sim][async]") {
  TrySeeds(kAsync);
}

TEST_CASE("bounded: the same, and no slot is further ahead than the staleness allows", "[sim][bounded]") {
  TrySeeds(kBounded);
}

TEST_CASE("allreduce: whatever befalls them, a version is made of the one before and one sum of all slots",
          "[sim][allreduce]") {
  TrySeeds(kAllReduce);
}

TEST_CASE("allreduce: a group that can never form ends its job by name", "[sim][allreduce]") {
  ClusterOptions options;
  options.mode = Mode::kAllReduce;
  options.unconnected = true;
  CHECK(RunCluster(options).violation.starts_with("the job failed: no step was committed for 150 s"));
}

TEST_CASE("durable: the same, and what was acknowledged is never lost unless it is said", "[sim][durable]") {
  TrySeeds(kDurableAsync);
  TrySeeds(kDurableBounded);
}

TEST_CASE("old jobs: after hundreds of steps and snapshots under low limits they end as young ones do", "[sim][old]") {
  for (const Kind& kind : {kOldSync, kOldAsync, kOldBounded, kOldDurable, kOldAllReduce}) TrySeeds(kind);
  if (testing::TestTier() != testing::Tier::kAll) return;
  for (const Kind& kind : {kOldSync, kOldAsync}) {
    Judge judge;
    RunName name = kind.name;
    name.old_steps = 20000;
    name.seed = FirstSeed();
    for (int i = 0; i < (kSanitized ? 1 : 10); ++i, ++name.seed) TryOne(&judge, name);
  }
}

TEST_CASE("shared: the same among processes that read payloads in each other's memory", "[sim][shared]") {
  TrySeeds(kShared);
  TrySeeds(kSharedAsync);
}

TEST_CASE("slow lines: a job sends hardly more payload than it needs", "[sim][lines]") {
  TrySeeds(kSlowSync);
  TrySeeds(kSlowAsync);
}
