// A session whose program runs the optimizer: rounds that bring a gradient or a whole version, and versions to give.
#include "common/wire/messages/membership.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/upload_block.h"
#include "common/wire/messages/view.h"
#include "tests/catch.h"
#include "tests/worker/session/session_harness.h"

namespace capstan::session {
namespace {

// A version has two arrays of four blocks.
class ExternalHarness : public SessionHarness {
 public:
  ExternalHarness() {
    Declaration declaration = MakeDeclaration();
    declaration.state_arrays = 1;
    Outbox out;
    session->Declare(std::move(declaration), now, &out);
  }
  // Begins in the job's present step with these slots, of which nothing is covered.
  void Begin(const std::vector<SlotIndex>& slots, std::uint64_t step = 0) {
    View view = MakeView(slots);
    view.step = Step{step};
    FromCoordinator(view);
    Ready();
    if (!slots.empty()) NothingCovered(step);
  }
  Published MakePublished(ShardIndex shard, std::uint64_t version) const {
    Published published;
    published.generation = session->generation();
    published.incarnation = Incarnation{50 + shard};
    published.version = Version{version};
    return published;
  }
  void Send(std::uint64_t version, BlockIndex block, std::uint32_t array, bool stop = false, bool skipped = false) {
    Slice payload = Values(4, 1.0F);
    Weights weights;
    weights.generation = session->generation();
    weights.incarnation = Incarnation{50 + ShardOf(block)};
    weights.version = weights.asked = Version{version};
    weights.block = block;
    weights.array = array;
    weights.stop = stop;
    weights.skipped = skipped;
    weights.payload_hash = Hash64(payload.bytes());
    FromShard(ShardOf(block), weights, std::move(payload));
  }
  void SendArray(std::uint64_t version, std::uint32_t array, bool stop = false, bool skipped = false) {
    for (BlockIndex block = 0; block < 4; ++block) Send(version, block, array, stop, skipped);
  }
  void SendGradient(std::uint64_t version, bool stop = false) {
    for (ShardIndex shard = 0; shard < kShards; ++shard) {
      Published published = MakePublished(shard, version);
      published.stop = stop;
      FromShard(shard, published);
    }
    SendArray(version, kMeanGradient, stop);
  }
  bool NoWork() { return Events<Session::WorkReady>().empty(); }
  void Take(const RoundWork& work) {
    Outbox out;
    session->Settle({.round = work.round, .generation = work.generation, .version = work.step}, now, &out);
    for (const Envelope& envelope : out.envelopes) said.push_back(envelope.message.header.Get<Heartbeat>());
  }
  RoundWork Work() {
    const std::vector<Session::WorkReady> ready = Events<Session::WorkReady>();
    REQUIRE(ready.size() == 1);
    return ready[0].work;
  }
  // Loads version 0, and takes it.
  RoundWork BeginWith(const std::vector<SlotIndex>& slots) {
    Begin(slots);
    for (std::uint32_t array : {0U, 1U}) SendArray(0, array);
    RoundWork work = Work();
    Take(work);
    return work;
  }
  void EndAll(const RoundWork& work) {
    Outbox out;
    for (SlotIndex slot : work.slots) {
      SlotReport report;
      report.slot = slot;
      session->EndSlot(work.round, report, {}, now, &out);
    }
    Ready();
  }
  View MakeKeeperView(std::uint64_t step) {
    View view = MakeView({0});
    view.step = Step{step};
    view.founder = true;
    return view;
  }

  std::vector<Heartbeat> said;
};

}  // namespace

TEST_CASE("a program that begins loads a whole version, array by array, and says so", "[session][external]") {
  ExternalHarness harness;
  harness.Begin({0}, 3);
  const std::vector<Heartbeat> beats = harness.SessionHarness::Take<Heartbeat>(SessionHarness::kCoordinator);
  REQUIRE_FALSE(beats.empty());
  CHECK(beats.back().loads);
  CHECK_FALSE(beats.back().has_version);
  for (const Pull& pull : harness.TakeFor<Pull>(0)) {
    CHECK(pull.array == 0);
    CHECK(pull.version == Version{3});
    CHECK_FALSE(pull.follows);
  }
  harness.SendArray(3, 0);
  CHECK(harness.NoWork());
  for (const Pull& pull : harness.TakeFor<Pull>(0)) CHECK(pull.array <= 1);
  harness.SendArray(3, 1);
  const RoundWork work = harness.Work();
  CHECK(work.source == VersionSource::kWhole);
  CHECK(work.step == Step{3});
  CHECK(work.slots == std::vector<SlotIndex>{0});
  harness.Take(work);
  REQUIRE(harness.said.size() == 1);
  CHECK(harness.said[0].has_version);
  CHECK_FALSE(harness.said[0].loads);
}

TEST_CASE("a program that has a version gets the gradient of its step", "[session][external]") {
  ExternalHarness harness;
  harness.EndAll(harness.BeginWith({0}));
  const std::vector<Pull> pulls = harness.TakeFor<Pull>(0);
  REQUIRE_FALSE(pulls.empty());
  CHECK(pulls.back().array == kMeanGradient);
  CHECK(pulls.back().version == Version{1});
  CHECK(pulls.back().follows);
  harness.SendGradient(1);
  CHECK(harness.Work().source == VersionSource::kGradient);
}

TEST_CASE("a round whose version was not taken brings it again", "[session][external]") {
  ExternalHarness harness;
  harness.EndAll(harness.BeginWith({0}));
  harness.SendGradient(1);
  CHECK(harness.Work().source == VersionSource::kGradient);
  harness.Ready();
  harness.NothingCovered(1);
  CHECK(harness.Work().source == VersionSource::kGradient);
}

TEST_CASE("a program that is more than one version behind loads a whole one", "[session][external]") {
  ExternalHarness harness;
  harness.EndAll(harness.BeginWith({0}));
  harness.Forget();
  Error stale;
  stale.code = Code::kStale;
  stale.generation = Generation{1};
  stale.incarnation = Incarnation{50};
  stale.step = Step{4};
  harness.FromShard(0, stale);
  harness.NothingCovered(4);
  for (const Pull& pull : harness.TakeFor<Pull>(1)) {
    CHECK(pull.array == 0);
    CHECK(pull.version == Version{4});
  }
}

TEST_CASE("a skipped step's version is the one before", "[session][external]") {
  ExternalHarness harness;
  harness.EndAll(harness.BeginWith({0}));
  harness.SendArray(1, kMeanGradient, false, true);  // Published was lost
  CHECK(harness.Work().source == VersionSource::kSkipped);
}

TEST_CASE("a session without slots follows the job unless its program declines", "[session][external]") {
  ExternalHarness harness;
  harness.EndAll(harness.BeginWith({}));
  harness.SendGradient(1);
  const RoundWork work = harness.Work();
  CHECK(work.slots.empty());
  CHECK(work.source == VersionSource::kGradient);
  Outbox out;
  harness.session->Settle({.how = VersionSettled::How::kDeclined, .round = work.round}, harness.now, &out);
  harness.Forget();
  harness.Ready();
  CHECK(harness.TakeFor<Pull>(0).empty());
  CHECK(harness.NoWork());
}

TEST_CASE("a keeper gives the version that its program has, while it waits for the next one", "[session][external]") {
  ExternalHarness harness;
  harness.EndAll(harness.BeginWith({0}));
  harness.SendGradient(1);
  const RoundWork before = harness.Work();
  harness.Take(before);
  harness.EndAll(before);
  harness.Forget();
  harness.FromCoordinator(harness.MakeKeeperView(1));
  const RoundWork work = harness.Work();
  CHECK(work.keep);
  CHECK(work.step == Step{1});
  CHECK(work.slots.empty());
  Outbox out;
  VersionSettled given{.how = VersionSettled::How::kGiven, .round = work.round};
  given.arrays = {harness.Values(16, 1.0F), harness.Values(16, 2.0F)};
  given.program_state = "head";
  harness.session->Settle(std::move(given), harness.now, &out);
  std::size_t heads = 0, arrays = 0;
  for (const Envelope& envelope : out.envelopes) {
    const UploadBlock& upload = envelope.message.header.Get<UploadBlock>();
    CHECK(upload.step == Step{1});
    heads += upload.program_state == "head" ? 1 : 0;
    ++arrays;
  }
  CHECK(heads == 1);
  CHECK(arrays == 8);
  harness.FromCoordinator(harness.MakeKeeperView(1));
  harness.Ready();
  CHECK(harness.NoWork());  // it is asked once
  harness.SendGradient(2);
  CHECK(harness.Work().source == VersionSource::kGradient);
}

TEST_CASE("a keeper that has another version than the job's is not asked for it", "[session][external]") {
  ExternalHarness harness;
  harness.EndAll(harness.BeginWith({0}));
  harness.FromCoordinator(harness.MakeKeeperView(5));
  CHECK(harness.NoWork());
}

TEST_CASE("the last version comes in a round without slots, and the next round waits for the end",
          "[session][external]") {
  ExternalHarness harness;
  harness.EndAll(harness.BeginWith({0}));
  harness.SendGradient(1, true);
  const RoundWork work = harness.Work();
  CHECK(work.at_end);
  CHECK(work.slots.empty());
  CHECK(work.source == VersionSource::kGradient);
  harness.Take(work);
  harness.Forget();
  harness.Ready();
  CHECK(harness.TakeFor<Pull>(0).empty());
  harness.FromCoordinator(harness.MakeKeeperView(1));
  CHECK(harness.Work().keep);
}

}  // namespace capstan::session
