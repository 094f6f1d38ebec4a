// A peer cannot crash a server's cores, and its effect on a job ends when the peer is gone.
#include "common/config/job/limits_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/wire/messages/commit.h"
#include "common/wire/messages/prepared.h"
#include "common/wire/messages/snapshot_done.h"
#include "tests/catch.h"
#include "tests/common/wire/hostile_messages.h"
#include "tests/server/coordinator/coordinator_bench.h"
#include "tests/server/shard/shard_bench.h"
#include "tests/tier.h"

namespace capstan::server {
namespace {

using testing::HostileMessages;
using testing::Plausible;

constexpr int kMessages = 400;

// Returns the number of seeds: a multiple of four, so that each mode and optimizer has equally many.
std::uint64_t Seeds() { return 4 * static_cast<std::uint64_t>(testing::TriesOfTier(15)); }

constexpr SnapshotId kKept{Generation{1}, Version{0}};

Plausible OfShard() { return {1, {7, 7, 7, 6}, {0, 1, 2, 3}, {0, 8, 16, 16}, {1, 2}}; }

Generation* GenerationOf(Header* header) {
  if (auto* push = header->As<Push>()) return &push->generation;
  if (auto* end = header->As<EndSlot>()) return &end->generation;
  if (auto* pull = header->As<Pull>()) return &pull->generation;
  if (auto* query = header->As<CoverageQuery>()) return &query->generation;
  return nullptr;
}

TEST_CASE("workers that send anything but this generation's messages do not touch a shard's step",
          "[server][hostile]") {
  const std::uint64_t first = testing::TestSeed();
  for (std::uint64_t seed = first; seed != first + Seeds(); ++seed) {
    INFO("seed " << seed);
    ShardBench bench;
    bench.FromCoordinator(bench.MakeReset(1));
    bench.Stage(0, 0, {0, 1}, 1, 4.0F);
    bench.Forget();
    const std::uint64_t digest = bench.shard->store().Digest();
    HostileMessages hostile(seed, OfShard());
    for (int i = 0; i < kMessages; ++i) {
      Message message = hostile.Make();
      Generation* generation = GenerationOf(&message.header);
      if (generation != nullptr && *generation == Generation{1}) *generation = Generation{2};
      bench.FromWorker(std::move(message.header), std::move(message.payload), PeerId{2 + hostile.random().Below(4)});
      bench.Forget();
    }
    REQUIRE(bench.shard->term() == Term{1});
    REQUIRE(bench.shard->store().Digest() == digest);
    REQUIRE(!bench.shard->shut_down());
    REQUIRE(bench.Coverage(0).held == std::vector<Staged::Entry>{{0, {0, 1}}});
    bench.CompleteStep(0, 4.0F);
    bench.FromCoordinator(bench.MakeCommit(0));
    REQUIRE(bench.WeightOf(0) == -4.0F);
  }
}

void AttackAsWorkers(ShardBenchOptions options, std::uint64_t seed) {
  ShardBench bench(options);
  bench.FromCoordinator(bench.MakeReset(1));
  bench.FromCoordinator(bench.MakePin(0));  // there is something to fetch
  HostileMessages hostile(seed, OfShard());
  const Slice payload = bench.Values(4, 1.0F);
  for (int i = 0; i < kMessages; ++i) {
    const std::uint64_t step = hostile.random().Below(3);
    Message message = hostile.Make();
    switch (hostile.random().Below(8)) {
      case 0: message = hostile.Spoil(bench.MakePush(step, 0, {0, 1}, 1, payload)); break;
      case 1: message = hostile.Spoil(bench.MakeEnd(step, 1)); break;
      case 2: {
        Pull pull = bench.MakePull(step, {0, 1});
        pull.ahead = {1, 2};
        pull.follows = true;
        message = hostile.Spoil(pull);
        break;
      }
      case 3: message = hostile.Spoil(CoverageQuery{Generation{1}, Incarnation{7}, SessionId{1}, Step{step}}); break;
      case 4: message = hostile.Spoil(Fetch{kKept, 0, hostile.Chance(50) ? 0 : kFetchHeader}); break;
      case 5: message = hostile.Spoil(Fetched{kKept, 0, 0, 0, 1, {}, Hash64(payload.bytes()), {}, 1}); break;
      default: break;
    }
    bench.FromWorker(std::move(message.header), std::move(message.payload), PeerId{2 + hostile.random().Below(4)});
    if (hostile.Chance(10)) bench.Tick(std::chrono::milliseconds(200));
    bench.Forget();
    REQUIRE(bench.shard->term() == Term{1});
    REQUIRE(bench.shard->generation() == Generation{1});
    REQUIRE(!bench.shard->shut_down());
    // Two payloads a block are staged and no more, with any number of senders.
    REQUIRE(bench.shard->engine().staged_bytes() <= 3 * 2 * 16);
  }
  // For a worker the messages may have been valid. A new generation knows nothing of them.
  bench.FromCoordinator(bench.MakeReset(2));
  bench.Forget();
  const Slice last = bench.Values(4, 3.0F);
  Push push = bench.MakePush(options.mode == Mode::kAsync ? 1 : 0, 0, {0, 1}, 1, last);
  push.generation = Generation{2};
  bench.FromWorker(push, last);
  REQUIRE(bench.Take<Staged>().size() == 1);
  if (options.mode == Mode::kAsync) REQUIRE(bench.WeightOf(0) == -3.0F);
}

TEST_CASE("no worker can crash a shard, take more of its memory than a step needs, or outlive a generation",
          "[server][hostile]") {
  const std::uint64_t first = testing::TestSeed();
  for (std::uint64_t seed = first; seed != first + Seeds(); ++seed) {
    INFO("seed " << seed);
    AttackAsWorkers({}, seed);
    AttackAsWorkers({.mode = Mode::kAsync}, seed);
    ShardBenchOptions durable{.mode = Mode::kAsync};
    durable.acknowledge = Acknowledge::kDurable;
    AttackAsWorkers(durable, seed);
  }
}

// Makes a Reset to a part that is on the disk, was there, or is claimed to be elsewhere.
Message MakeResetToKept(HostileMessages* hostile, const ShardBench& bench) {
  std::vector<SnapshotPart> parts = bench.disk.List();
  if (parts.empty() || hostile->Chance(30)) parts = {{kKept, 0, 5}};
  const std::uint64_t generation = bench.shard->generation().value + hostile->random().Below(2);
  Reset reset = bench.MakeResetTo(generation, {hostile->Pick(parts)});
  if (hostile->Chance(50)) reset.history = Generation{hostile->random().Below(3)};
  return hostile->Chance(50) ? Message{reset, {}} : hostile->Spoil(reset);
}

// Acts as a correct coordinator that makes a shard do a step of a new generation, whatever the generation before
// received.
void ServesAgain(ShardBench* bench, const ShardBenchOptions& options) {
  bench->LetDiskGo();
  bench->generation = bench->shard->generation().Next();
  Reset reset = bench->MakeReset(bench->generation.value);
  reset.term = bench->shard->term();
  bench->FromCoordinator(reset);
  REQUIRE(bench->shard->serving());
  REQUIRE(bench->shard->generation() == bench->generation);
  bench->Forget();
  if (options.mode == Mode::kAsync) {
    bench->Stage(1, 0, {0, 1}, 1, 3.0F);
    REQUIRE(bench->Take<Staged>().size() == 1);
    REQUIRE(bench->WeightOf(0) == -3.0F);
    return;
  }
  bench->CompleteStep(0, 4.0F);
  const std::vector<Prepared> prepared = bench->Take<Prepared>(ShardBench::kCoordinator);
  REQUIRE(prepared.size() == 1);
  REQUIRE(prepared[0].report.slots.size() == options.slots);
  if (options.optimizer != OptimizerKind::kSgd) return;  // trust ratios have their own test
  Commit commit = bench->MakeCommit(0);
  commit.term = reset.term;
  bench->FromCoordinator(commit);
  REQUIRE(bench->shard->version() == Version{1});
  REQUIRE(bench->WeightOf(0) == -4.0F);
}

TEST_CASE("no coordinator can crash a shard, or keep it from serving the next one", "[server][hostile]") {
  const std::uint64_t first = testing::TestSeed();
  for (std::uint64_t seed = first; seed != first + Seeds(); ++seed) {
    INFO("seed " << seed);
    ShardBenchOptions options;
    if (seed % 2 == 1) options.mode = Mode::kAsync;
    if (seed % 4 == 1) options.acknowledge = Acknowledge::kDurable;
    if (seed % 4 == 2) options.optimizer = OptimizerKind::kLamb;
    ShardBench bench(options);
    HostileMessages hostile(seed, OfShard());
    for (int i = 0; i < kMessages; ++i) {
      const std::uint64_t step = bench.shard->version().value;
      bench.generation = bench.shard->generation();
      Message message = hostile.Make();
      switch (hostile.random().Below(12)) {
        case 0: message = hostile.Spoil(bench.MakeReset(1 + hostile.random().Below(3))); break;
        case 1: message = hostile.Spoil(bench.MakeCommit(step)); break;
        case 2: message = hostile.Spoil(bench.MakeRedo(step, 1, 0.5F, {2.0F, 3.0F, 4.0F})); break;
        case 3: message = hostile.Spoil(Rates{Term{1}, Generation{1}, Step{step}, {}}); break;
        case 4: bench.FromCoordinator(bench.MakeReset(bench.shard->generation().value)); break;
        case 5: message = hostile.Spoil(bench.MakeSnapshotCommit(step)); break;
        case 6: message = hostile.Spoil(bench.MakePin(step)); break;
        case 7: message = hostile.Spoil(bench.MakeKept({kKept}, kKept)); break;
        case 8: message = MakeResetToKept(&hostile, bench); break;
        default: break;
      }
      if (hostile.Chance(10)) bench.HoldDisk();
      bench.FromCoordinator(std::move(message.header));
      // An answer of a shard that this shard may have asked.
      Message fetched = hostile.Make();
      if (hostile.Chance(30)) fetched = hostile.Spoil(Fetched{kKept, 0, 0, 0, 1, {}, 0, {}, 1});
      bench.FromWorker(std::move(fetched.header), std::move(fetched.payload), ShardBench::PeerOf(0));
      if (hostile.Chance(30)) bench.LetDiskGo();
      if (bench.shard->serving() && hostile.Chance(30)) bench.CompleteStep(step, 1.0F);
      if (hostile.Chance(10)) bench.Tick(std::chrono::milliseconds(200));
      bench.Forget();
    }
    ServesAgain(&bench, options);
  }
}

// ---- the coordinator ------------------------------------------------------------------------------------------------

Plausible OfCoordinator() { return {1, {50, 51, 60}, {0, 1, 2}, {0}, {1, 2}}; }

Message MakeAttack(HostileMessages* hostile, CoordinatorBench* bench) {
  const std::uint64_t step = bench->coordinator->step().value;
  const auto shard = static_cast<ShardIndex>(hostile->random().Below(2));
  switch (hostile->random().Below(8)) {
    case 0: return hostile->Spoil(bench->MakeJoin(hostile->Chance(50) ? "w0" : "w9", hostile->random().Below(4)));
    case 1: return hostile->Spoil(bench->shards[shard].hello);
    case 2:
      if (hostile->Chance(50)) return hostile->Spoil(bench->MakeDone(shard, step));
      return hostile->Spoil(bench->MakePrepared(shard, step));
    case 3: {
      Progress progress{shard, bench->shards[shard].hello.incarnation, Generation{1}, {step, step}, {}};
      progress.reports.push_back({Step{step + 1}, {}});
      return hostile->Spoil(progress);
    }
    case 4: {
      Beat beat;
      beat.session = SessionId{hostile->random().Below(4)};
      beat.nonce = hostile->random().Below(3);
      return hostile->Spoil(beat);
    }
    default: return hostile->Make();
  }
}

// For a while, sends what the shards and workers of a job send that wants to continue.
void LiveOn(CoordinatorBench* bench) {
  for (int i = 0; i < 80 && bench->coordinator->state() != Coordinator::State::kFinished; ++i) {
    bench->ShardsEchoTerm();
    for (const char* name : {"w0", "w1"}) bench->Joins(name);
    for (ShardIndex shard : {0U, 1U}) {
      if (!bench->TakeFromShard<Reset>(shard).empty()) bench->AnswerReset(shard);
    }
    if (bench->coordinator->state() == Coordinator::State::kRunning) bench->DoStep(bench->coordinator->step().value);
    bench->Forget();
    bench->Tick(std::chrono::milliseconds(500));
  }
}

TEST_CASE("strangers and members cannot crash a coordinator, and the job ends as if they had not been",
          "[server][hostile]") {
  const std::uint64_t first = testing::TestSeed();
  for (std::uint64_t seed = first; seed != first + Seeds(); ++seed) {
    INFO("seed " << seed);
    CoordinatorBench bench;
    bench.config.limits.stall = 0;
    bench.Run();
    HostileMessages hostile(seed, OfCoordinator());
    const std::vector<PeerId> from = {CoordinatorBench::kStranger, PeerId{4000},
                                      CoordinatorBench::PeerOf(bench.MakeJoin("w0"))};
    for (int i = 0; i < kMessages; ++i) {
      Message message = MakeAttack(&hostile, &bench);
      bench.Send(hostile.Pick(from), std::move(message.header));
      if (i % 20 == 0) {
        bench.ShardsEchoTerm();
        bench.Tick(std::chrono::milliseconds(100));
      }
      REQUIRE(bench.coordinator->step() == Step{0});
      REQUIRE(bench.coordinator->state() == Coordinator::State::kRunning);
      REQUIRE(bench.coordinator->generation() == Generation{1});
    }
    LiveOn(&bench);
    REQUIRE(bench.coordinator->state() == Coordinator::State::kFinished);
    REQUIRE(bench.coordinator->TakeRecords().size() == 3);
  }
}

TEST_CASE("no shard can crash a coordinator", "[server][hostile]") {
  const std::uint64_t first = testing::TestSeed();
  for (std::uint64_t seed = first; seed != first + Seeds(); ++seed) {
    INFO("seed " << seed);
    CoordinatorBench bench(2, 2, seed % 2 == 0 ? Mode::kSync : Mode::kAsync);
    if (seed % 4 == 0) bench.config.optimizer.kind = OptimizerKind::kLamb;
    bench.Run();
    HostileMessages hostile(seed, OfCoordinator());
    for (int i = 0; i < kMessages; ++i) {
      Message message = MakeAttack(&hostile, &bench);
      const auto shard = static_cast<ShardIndex>(hostile.random().Below(2));
      bench.Send(bench.shards[shard].peer, std::move(message.header));
      if (hostile.Chance(5)) bench.Tick(std::chrono::milliseconds(500));
      if (hostile.Chance(2)) bench.Live();
      if (hostile.Chance(20)) bench.ShardsEchoTerm();
      if (hostile.Chance(20)) bench.Joins("w0");
      if (hostile.Chance(20)) bench.AnswerReset(shard);
      bench.Forget();
    }
  }
}

}  // namespace
}  // namespace capstan::server
