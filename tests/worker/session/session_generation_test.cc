// A session that enters a new generation must behave as if it had never seen the generation before.
#include "common/wire/messages/group_state.h"
#include "common/wire/messages/membership.h"
#include "common/wire/messages/slot_report.h"
#include "common/wire/messages/staged.h"
#include "common/wire/messages/upload_block.h"
#include "common/wire/messages/view.h"
#include "common/wire/messages/weights.h"
#include "common/wire/wire_codec.h"
#include "tests/catch.h"
#include "tests/worker/session/session_harness.h"

namespace capstan::session {
namespace {

using std::chrono::seconds;

// How far a session has come when its generation ends.
enum class Until { kAskingCoverage, kComputing, kPushed, kNextPull, kStop };

class GenerationHarness : public SessionHarness {
 public:
  explicit GenerationHarness(Mode mode) : SessionHarness(mode), mode_(mode) { Declare(); }

  // Returns the messages to shards, and the last Heartbeat, as bytes. Earlier Heartbeats are left out, because they
  // depend on the time.
  std::vector<std::vector<std::byte>> TakeBytes() {
    std::vector<std::vector<std::byte>> all;
    std::vector<std::byte> beat;
    for (const Envelope& envelope : out().envelopes) {
      std::vector<std::byte> bytes;
      REQUIRE(EncodeHeader(envelope.message.header, &bytes).ok());
      if (envelope.to != kCoordinator)
        all.push_back(std::move(bytes));
      else if (envelope.message.header.Is<Heartbeat>())
        beat = std::move(bytes);
    }
    all.push_back(std::move(beat));
    Forget();
    return all;
  }
  void EnterGeneration(std::uint64_t generation, std::uint64_t sequence, std::vector<SlotIndex> slots, Step step) {
    View view = MakeView(std::move(slots), generation);
    view.sequence = sequence;
    view.step = step;
    if (mode_ == Mode::kAllReduce) view.group = {{"v", ""}, {"w", ""}};
    view.group_rank = 1;
    FromCoordinator(view);
  }
  void AnswerPull(std::uint64_t version, bool stop = false) {
    for (ShardIndex shard = 0; shard < kShards && mode_ == Mode::kAllReduce; ++shard) {
      Published published;
      published.generation = session->generation();
      published.incarnation = Incarnation{50 + shard};
      published.version = Version{version};
      published.stop = stop;
      FromShard(shard, published);
    }
    for (BlockIndex block = 0; block < 4 && mode_ != Mode::kAllReduce; ++block) {
      const Slice payload = Values(4, static_cast<float>(version));
      Weights weights = MakeWeights(block, version, payload);
      weights.stop = stop;
      weights.updates = version;
      FromShard(ShardOf(block), weights, payload);
    }
  }
  Session::WorkReady TakeWork() {
    const std::vector<Session::WorkReady> ready = Events<Session::WorkReady>();
    return ready.empty() ? Session::WorkReady{} : ready.back();
  }
  // Takes the session through generation 1 up to this point.
  void Live(Until until) {
    EnterGeneration(1, 1, {0, 1}, Step{0});
    if (mode_ == Mode::kAllReduce) {
      session->ReportGroup(Generation{1}, GroupState::kOffered, "address", now, &ignored_);
    }
    Ready();
    if (until == Until::kAskingCoverage) return FromShard(0, MakeCoverage(0, 0, {{0, {0, 2}}}, {0}));
    for (ShardIndex shard = 0; shard < kShards; ++shard) {
      Staged staged = MakeCoverage(shard, 0, {{shard, {0, 1}}}, {});
      staged.clocks = {{0}, {0}, {0}, {0}};
      FromShard(shard, staged);
    }
    AnswerPull(0, until == Until::kStop);
    const RoundWork work = TakeWork().work;
    if (until == Until::kComputing || until == Until::kStop) return;
    for (BlockIndex block = 4; block-- > 0;)
      Push(work, {1, 2}, block, 1, block == 0 ? PushWay::kDeferred : PushWay::kNow);
    session->SumsMade(work.round, now);
    for (SlotIndex slot : work.slots) EndSlot(work, slot);
    if (mode_ == Mode::kAllReduce) session->UploadVersion(work.round, {Values(16, 1)}, {0, 1, 2}, now, &ignored_);
    Staged staged = MakeStaged(0, 0, {{2, {1, 2}}});
    staged.credit = 1;
    FromShard(0, staged);
    if (until == Until::kNextPull) Ready();
  }
  // Takes the session through a round of generation 2. Returns what it sends, as bytes: messages to shards, and some
  // Heartbeats.
  std::vector<std::vector<std::byte>> Answer() {
    std::vector<std::vector<std::byte>> all;
    const auto add = [&] {
      for (std::vector<std::byte>& bytes : TakeBytes()) all.push_back(std::move(bytes));
    };
    for (ShardIndex shard = 0; shard < kShards; ++shard) {
      Staged staged = MakeCoverage(shard, 3);
      staged.clocks = {{3}, {3}, {3}, {3}};
      FromShard(shard, staged);
    }
    add();
    AnswerPull(3);
    begun = TakeWork();
    Barrier();
    add();
    for (BlockIndex block = 4; block-- > 0;) Push(begun.work, {1, 2}, block);
    for (SlotIndex slot : begun.work.slots) EndSlot(begun.work, slot);
    for (int i = 0; i < 3; ++i) Tick(seconds(2));
    LoseAll(2);
    add();
    Ready();
    Tick(seconds(20));
    add();
    return all;
  }

  Session::WorkReady begun;

 private:
  const Mode mode_;
  Outbox ignored_;
};

}  // namespace

TEST_CASE("a session that enters a generation does what a new one does", "[client][round]") {
  const Mode mode = GENERATE(Mode::kSync, Mode::kAsync, Mode::kAllReduce);
  const Until until =
      GENERATE(Until::kAskingCoverage, Until::kComputing, Until::kPushed, Until::kNextPull, Until::kStop);
  CAPTURE(static_cast<int>(mode), static_cast<int>(until));
  GenerationHarness used(mode), fresh(mode);
  used.Live(until);
  for (GenerationHarness* harness : {&used, &fresh}) {
    harness->EnterGeneration(2, 10, {1}, Step{3});
    harness->Events<Session::WorkReady>();
    harness->Forget();
    harness->Ready();
    // If the application waited for work when the generation began, the session sent its CoverageQueries then, and
    // Forget() has dropped them. Otherwise it sends them in Ready(), and they are dropped here.
    for (ShardIndex shard = 0; shard < SessionHarness::kShards; ++shard) (void)harness->TakeFor<CoverageQuery>(shard);
  }
  const auto expected = fresh.Answer();
  CHECK(used.Answer() == expected);
  CHECK(expected.size() > 10);
  const Session::WorkReady &mine = used.begun, &other = fresh.begun;
  CHECK(mine.work.step == Step{3});
  CHECK(mine.work.step == other.work.step);
  CHECK(mine.work.slots == other.work.slots);
  CHECK(mine.work.updates == other.work.updates);
  CHECK(mine.work.terms.version == other.work.terms.version);
  CHECK(mine.work.group.size() == other.work.group.size());
  CHECK(mine.work.rank == other.work.rank);
  CHECK(mine.loss_scale == other.loss_scale);
  CHECK(mine.weights_complete == other.weights_complete);
  CHECK(used.session->links().unstaged_pushes() == fresh.session->links().unstaged_pushes());
}

}  // namespace capstan::session
