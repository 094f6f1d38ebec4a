// A peer cannot crash a server's cores, and its effect on a job ends when the peer is gone.
#include "common/config/job/limits_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/wire/messages/commit.h"
#include "common/wire/messages/prepared.h"
#include "common/wire/messages/snapshot_done.h"
#include "tests/catch.h"
#include "tests/common/wire/hostile_messages.h"
#include "tests/server/coordinator/coordinator_harness.h"
#include "tests/server/shard/shard_harness.h"
#include "tests/tier.h"

namespace capstan::server {
namespace {

using testing::HostileMessages;
using testing::Plausible;

constexpr int kMessages = 400;

// Returns the number of seeds: a multiple of four, because the tests choose mode and optimizer by seed % 4.
std::uint64_t Seeds() { return 4 * static_cast<std::uint64_t>(testing::TriesOfTier(15)); }

constexpr SnapshotId kRetained{Generation{1}, Version{0}};

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
    ShardHarness harness;
    harness.FromCoordinator(harness.MakeReset(1));
    harness.Stage(0, 0, {0, 1}, 1, 4.0F);
    harness.Forget();
    const std::uint64_t digest = harness.shard->store().Digest();
    HostileMessages hostile(seed, OfShard());
    for (int i = 0; i < kMessages; ++i) {
      Message message = hostile.Make();
      Generation* generation = GenerationOf(&message.header);
      if (generation != nullptr && *generation == Generation{1}) *generation = Generation{2};
      harness.FromWorker(std::move(message.header), std::move(message.payload), PeerId{2 + hostile.random().Below(4)});
      harness.Forget();
    }
    REQUIRE(harness.shard->term() == Term{1});
    REQUIRE(harness.shard->store().Digest() == digest);
    REQUIRE(!harness.shard->shut_down());
    REQUIRE(harness.Coverage(0).nodes == std::vector<Staged::Entry>{{0, {0, 1}}});
    harness.CompleteStep(0, 4.0F);
    harness.FromCoordinator(harness.MakeCommit(0));
    REQUIRE(harness.WeightOf(0) == -4.0F);
  }
}

void AttackAsWorkers(ShardHarnessOptions options, std::uint64_t seed) {
  ShardHarness harness(options);
  harness.FromCoordinator(harness.MakeReset(1));
  harness.FromCoordinator(harness.MakePin(0));  // there is something to fetch
  HostileMessages hostile(seed, OfShard());
  const Slice payload = harness.Values(4, 1.0F);
  for (int i = 0; i < kMessages; ++i) {
    const std::uint64_t step = hostile.random().Below(3);
    Message message = hostile.Make();
    switch (hostile.random().Below(8)) {
      case 0: message = hostile.Spoil(harness.MakePush(step, 0, {0, 1}, 1, payload)); break;
      case 1: message = hostile.Spoil(harness.MakeEnd(step, 1)); break;
      case 2: {
        Pull pull = harness.MakePull(step, {0, 1});
        pull.speculative = {1, 2};
        pull.follows = true;
        message = hostile.Spoil(pull);
        break;
      }
      case 3: message = hostile.Spoil(CoverageQuery{Generation{1}, Incarnation{7}, SessionId{1}, Step{step}}); break;
      case 4: message = hostile.Spoil(Fetch{kRetained, 0, hostile.Chance(50) ? 0 : kFetchHeader, 5}); break;
      case 5: message = hostile.Spoil(Fetched{kRetained, 0, 0, 0, 1, {}, Hash64(payload.bytes()), {}, 1}); break;
      default: break;
    }
    harness.FromWorker(std::move(message.header), std::move(message.payload), PeerId{2 + hostile.random().Below(4)});
    if (hostile.Chance(10)) harness.Tick(std::chrono::milliseconds(200));
    harness.Forget();
    REQUIRE(harness.shard->term() == Term{1});
    REQUIRE(harness.shard->generation() == Generation{1});
    REQUIRE(!harness.shard->shut_down());
    // At most two payloads are staged for each of the 3 blocks, however many workers send.
    REQUIRE(harness.shard->engine().staged_bytes() <= 3 * 2 * 16);
  }
  // Some of the messages may have been accepted. A new generation begins without them.
  harness.FromCoordinator(harness.MakeReset(2));
  harness.Forget();
  const Slice last = harness.Values(4, 3.0F);
  Push push = harness.MakePush(options.mode == Mode::kAsync ? 1 : 0, 0, {0, 1}, 1, last);
  push.generation = Generation{2};
  harness.FromWorker(push, last);
  REQUIRE(harness.Take<Staged>().size() == 1);
  if (options.mode == Mode::kAsync) REQUIRE(harness.WeightOf(0) == -3.0F);
}

TEST_CASE("no worker can crash a shard, take more of its memory than a step needs, or outlive a generation",
          "[server][hostile]") {
  const std::uint64_t first = testing::TestSeed();
  for (std::uint64_t seed = first; seed != first + Seeds(); ++seed) {
    INFO("seed " << seed);
    AttackAsWorkers({}, seed);
    AttackAsWorkers({.mode = Mode::kAsync}, seed);
    ShardHarnessOptions durable{.mode = Mode::kAsync};
    durable.acknowledge = Acknowledge::kDurable;
    AttackAsWorkers(durable, seed);
  }
}

// Makes a Reset to a snapshot whose part is on the shard's disk, or has a made-up digest.
Message MakeResetToRetained(HostileMessages* hostile, const ShardHarness& harness) {
  std::vector<SnapshotPart> parts = harness.disk.List();
  if (parts.empty() || hostile->Chance(30)) parts = {{kRetained, 0, 5}};
  const std::uint64_t generation = harness.shard->generation().value + hostile->random().Below(2);
  Reset reset = harness.MakeResetTo(generation, {hostile->Pick(parts)});
  if (hostile->Chance(50)) reset.timeline = TimelineId{hostile->random().Below(3)};
  return hostile->Chance(50) ? Message{reset, {}} : hostile->Spoil(reset);
}

// Acts as a correct coordinator that makes a shard do a step of a new generation, whatever the generation before
// received.
void ServesAgain(ShardHarness* harness, const ShardHarnessOptions& options) {
  harness->LetDiskGo();
  harness->generation = harness->shard->generation().Next();
  Reset reset = harness->MakeReset(harness->generation.value);
  reset.term = harness->shard->term().Next();  // another coordinator, whose list of sessions replaces every other
  harness->FromCoordinator(reset);
  harness->Tell({harness->MakeSession(1)});
  REQUIRE(harness->shard->serving());
  REQUIRE(harness->shard->generation() == harness->generation);
  harness->Forget();
  if (options.mode == Mode::kAsync) {
    harness->Stage(1, 0, {0, 1}, 1, 3.0F);
    REQUIRE(harness->Take<Staged>().size() == 1);
    REQUIRE(harness->WeightOf(0) == -3.0F);
    return;
  }
  harness->CompleteStep(0, 4.0F);
  const std::vector<Prepared> prepared = harness->Take<Prepared>(ShardHarness::kCoordinator);
  REQUIRE(prepared.size() == 1);
  REQUIRE(prepared[0].report.slots.size() == options.slots);
  if (options.optimizer != OptimizerKind::kSgd) return;  // trust ratios have their own test
  Commit commit = harness->MakeCommit(0);
  commit.term = reset.term;
  harness->FromCoordinator(commit);
  REQUIRE(harness->shard->version() == Version{1});
  REQUIRE(harness->WeightOf(0) == -4.0F);
}

TEST_CASE("no coordinator can crash a shard, or keep it from serving the next one", "[server][hostile]") {
  const std::uint64_t first = testing::TestSeed();
  for (std::uint64_t seed = first; seed != first + Seeds(); ++seed) {
    INFO("seed " << seed);
    ShardHarnessOptions options;
    if (seed % 2 == 1) options.mode = Mode::kAsync;
    if (seed % 4 == 1) options.acknowledge = Acknowledge::kDurable;
    if (seed % 4 == 2) options.optimizer = OptimizerKind::kLamb;
    ShardHarness harness(options);
    HostileMessages hostile(seed, OfShard());
    for (int i = 0; i < kMessages; ++i) {
      const std::uint64_t step = harness.shard->version().value;
      harness.generation = harness.shard->generation();
      Message message = hostile.Make();
      switch (hostile.random().Below(12)) {
        case 0: message = hostile.Spoil(harness.MakeReset(1 + hostile.random().Below(3))); break;
        case 1: message = hostile.Spoil(harness.MakeCommit(step)); break;
        case 2: message = hostile.Spoil(harness.MakeRedo(step, 1, 0.5F, {2.0F, 3.0F, 4.0F})); break;
        case 3: message = hostile.Spoil(ClockUpdate{Term{1}, Generation{1}, SequenceNumber{step}, {}}); break;
        case 4: harness.FromCoordinator(harness.MakeReset(harness.shard->generation().value)); break;
        case 5: message = hostile.Spoil(harness.MakeSnapshotCommit(step)); break;
        case 6: message = hostile.Spoil(harness.MakePin(step)); break;
        case 7: message = hostile.Spoil(harness.MakeRetained({kRetained}, kRetained)); break;
        case 8: message = MakeResetToRetained(&hostile, harness); break;
        default: break;
      }
      if (hostile.Chance(10)) harness.HoldDisk();
      harness.FromCoordinator(std::move(message.header));
      // The answer of another shard, which this shard may have asked for blocks.
      Message fetched = hostile.Make();
      if (hostile.Chance(30)) fetched = hostile.Spoil(Fetched{kRetained, 0, 0, 0, 1, {}, 0, {}, 1});
      harness.FromWorker(std::move(fetched.header), std::move(fetched.payload), ShardHarness::PeerOf(0));
      if (hostile.Chance(30)) harness.LetDiskGo();
      if (harness.shard->serving() && hostile.Chance(30)) harness.CompleteStep(step, 1.0F);
      if (hostile.Chance(10)) harness.Tick(std::chrono::milliseconds(200));
      harness.Forget();
    }
    ServesAgain(&harness, options);
  }
}

// ---- the coordinator ------------------------------------------------------------------------------------------------

Plausible OfCoordinator() { return {1, {50, 51, 60}, {0, 1, 2}, {0}, {1, 2}}; }

Message MakeAttack(HostileMessages* hostile, CoordinatorHarness* harness) {
  const std::uint64_t step = harness->coordinator->step().value;
  const auto shard = static_cast<ShardIndex>(hostile->random().Below(2));
  switch (hostile->random().Below(8)) {
    case 0: return hostile->Spoil(harness->MakeJoin(hostile->Chance(50) ? "w0" : "w9", hostile->random().Below(4)));
    case 1: return hostile->Spoil(harness->shards[shard].hello);
    case 2:
      if (hostile->Chance(50)) return hostile->Spoil(harness->MakeDone(shard, step));
      return hostile->Spoil(harness->MakePrepared(shard, step));
    case 3: {
      Progress progress{shard, harness->shards[shard].hello.incarnation, Generation{1}, {{step}, {step}}, {}};
      progress.reports.push_back({SequenceNumber{step + 1}, {}});
      return hostile->Spoil(progress);
    }
    case 4: {
      Heartbeat beat;
      beat.session = SessionId{hostile->random().Below(4)};
      beat.nonce = hostile->random().Below(3);
      return hostile->Spoil(beat);
    }
    default: return hostile->Make();
  }
}

// Acts as correct shards and workers until the job is finished, for at most 40 s.
void LiveOn(CoordinatorHarness* harness) {
  for (int i = 0; i < 80 && harness->coordinator->state() != Coordinator::State::kFinished; ++i) {
    harness->ShardsEchoTerm();
    for (const char* name : {"w0", "w1"}) harness->Joins(name);
    for (ShardIndex shard : {0U, 1U}) {
      if (!harness->TakeFromShard<Reset>(shard).empty()) harness->AnswerReset(shard);
    }
    if (harness->coordinator->state() == Coordinator::State::kRunning)
      harness->DoStep(harness->coordinator->step().value);
    harness->Forget();
    harness->Tick(std::chrono::milliseconds(500));
  }
}

TEST_CASE("strangers and members cannot crash a coordinator, and the job ends as if they had not been",
          "[server][hostile]") {
  const std::uint64_t first = testing::TestSeed();
  for (std::uint64_t seed = first; seed != first + Seeds(); ++seed) {
    INFO("seed " << seed);
    CoordinatorHarness harness;
    harness.config.limits.stall = 0;
    harness.Run();
    HostileMessages hostile(seed, OfCoordinator());
    const std::vector<PeerId> from = {CoordinatorHarness::kStranger, PeerId{4000},
                                      CoordinatorHarness::PeerOf(harness.MakeJoin("w0"))};
    for (int i = 0; i < kMessages; ++i) {
      Message message = MakeAttack(&hostile, &harness);
      harness.Send(hostile.Pick(from), std::move(message.header));
      if (i % 20 == 0) {
        harness.ShardsEchoTerm();
        harness.Tick(std::chrono::milliseconds(100));
      }
      REQUIRE(harness.coordinator->step() == Step{0});
      REQUIRE(harness.coordinator->state() == Coordinator::State::kRunning);
      REQUIRE(harness.coordinator->generation() == Generation{1});
    }
    LiveOn(&harness);
    REQUIRE(harness.coordinator->state() == Coordinator::State::kFinished);
    REQUIRE(harness.coordinator->TakeRecords().size() == 3);
  }
}

TEST_CASE("no shard can crash a coordinator", "[server][hostile]") {
  const std::uint64_t first = testing::TestSeed();
  for (std::uint64_t seed = first; seed != first + Seeds(); ++seed) {
    INFO("seed " << seed);
    CoordinatorHarness harness(2, 2, seed % 2 == 0 ? Mode::kSync : Mode::kAsync);
    if (seed % 4 == 0) harness.config.optimizer.kind = OptimizerKind::kLamb;
    harness.Run();
    HostileMessages hostile(seed, OfCoordinator());
    for (int i = 0; i < kMessages; ++i) {
      Message message = MakeAttack(&hostile, &harness);
      const auto shard = static_cast<ShardIndex>(hostile.random().Below(2));
      harness.Send(harness.shards[shard].peer, std::move(message.header));
      if (hostile.Chance(5)) harness.Tick(std::chrono::milliseconds(500));
      if (hostile.Chance(2)) harness.Live();
      if (hostile.Chance(20)) harness.ShardsEchoTerm();
      if (hostile.Chance(20)) harness.Joins("w0");
      if (hostile.Chance(20)) harness.AnswerReset(shard);
      harness.Forget();
    }
  }
}

}  // namespace
}  // namespace capstan::server
