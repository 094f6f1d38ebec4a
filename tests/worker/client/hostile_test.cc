// Tests that no peer can crash a session, and that strangers do not affect a session's work.
#include "tests/catch.h"
#include "tests/common/wire/hostile_messages.h"
#include "tests/tier.h"
#include "tests/worker/session/session_harness.h"
#include "worker/client/slot_sums.h"

namespace capstan::client {
namespace {

using testing::HostileMessages;
using testing::Plausible;

constexpr int kMessages = 400;

std::uint64_t Seeds() { return static_cast<std::uint64_t>(testing::TriesOfTier(60)); }

Plausible OfSession() { return {1, {50, 51, 49}, {0, 1, 2, 4}, {0, 16, 16}, {1, 2}}; }

Message MakeAttack(HostileMessages* hostile, session::SessionHarness* harness) {
  const std::uint64_t step = harness->session->step().value + hostile->random().Below(2);
  const auto shard = static_cast<ShardIndex>(hostile->random().Below(2));
  switch (hostile->random().Below(8)) {
    case 0: return hostile->Spoil(harness->MakeView({0, 1}, 1 + hostile->random().Below(3)));
    case 1: return hostile->Spoil(harness->MakeCoverage(shard, step, {{shard, {0, 1}}}, {shard}));
    case 2: return hostile->Spoil(harness->MakeStaged(shard, step, {{shard, {0, 1}}}));
    case 3: return hostile->Spoil(harness->MakeWeights(shard, step, {}));
    case 4: return hostile->Spoil(harness->MakeError(shard, Code::kStale, step));
    default: return hostile->Make();
  }
}

// A session under attack, and its application, which behaves as a trainer would.
class Attacked {
 public:
  Attacked(Mode mode, std::uint64_t seed) : mode_(mode), hostile_(seed, OfSession()) { Begin(); }

  void Run() {
    for (int i = 0; i < kMessages; ++i) {
      if (ended_) Begin();
      Message message = MakeAttack(&hostile_, harness_.get());
      const std::uint64_t from = hostile_.random().Below(4);
      if (from == 3) {
        harness_->FromCoordinator(std::move(message.header));
      } else {
        harness_->FromShard(static_cast<ShardIndex>(from), std::move(message.header), std::move(message.payload));
      }
      Help();
      Apply();
      if (hostile_.Chance(10)) harness_->Tick(std::chrono::milliseconds(700));
      harness_->Forget();
    }
  }

 private:
  void Begin() {
    harness_ = std::make_unique<session::SessionHarness>(mode_);
    harness_->Join({0, 1});
    ended_ = false;
    work_.reset();
  }
  // Now and then sends a correct message, so that the session makes progress.
  void Help() {
    const std::uint64_t step = harness_->session->step().value;
    if (hostile_.Chance(20)) harness_->Ready();
    if (hostile_.Chance(20)) harness_->NothingCovered(step);
    if (hostile_.Chance(20)) harness_->SendAllWeights(step);
    if (hostile_.Chance(5))
      harness_->FromCoordinator(harness_->MakeView({0, 1}, harness_->session->generation().value));
    if (hostile_.Chance(10)) (void)harness_->session->WaitingFor();
  }
  void Apply() {
    for (const session::Session::WorkReady& ready : harness_->Events<session::Session::WorkReady>()) work_ = ready.work;
    ended_ = !harness_->Events<session::Session::Failed>().empty() ||
             !harness_->Events<session::Session::Finished>().empty();
    if (!work_ || !hostile_.Chance(30)) return;
    const SlotSums sums(work_->slots, ReductionTree(work_->slot_count));  // aborts on slots that are not the job's
    for (SlotIndex slot : sums.slots()) harness_->PushAll(*work_, {slot, slot + 1});
    work_.reset();
  }

  const Mode mode_;
  HostileMessages hostile_;
  std::unique_ptr<session::SessionHarness> harness_;
  std::optional<session::RoundWork> work_;
  bool ended_ = false;
};

TEST_CASE("neither coordinator nor shard can crash a session, or give it work that is none", "[client][hostile]") {
  const std::uint64_t first = testing::TestSeed();
  for (std::uint64_t seed = first; seed != first + Seeds(); ++seed) {
    INFO("seed " << seed);
    Attacked(Mode::kSync, seed).Run();
    Attacked(Mode::kAsync, seed).Run();
  }
}

// Runs the remaining steps, then delivers a View that says that the job is done.
void GoOnToTheEnd(session::SessionHarness* harness) {
  for (std::uint64_t step = 1; step < 5; ++step) {
    harness->Ready();
    harness->SendAllWeights(step);
    const std::vector<session::Session::WorkReady> ready = harness->Events<session::Session::WorkReady>();
    REQUIRE(ready.size() == 1);
    REQUIRE(ready[0].work.step == Step{step});
    REQUIRE(ready[0].work.slots == std::vector<SlotIndex>{0});
    for (const session::Session::WeightsArrived& arrived : harness->Events<session::Session::WeightsArrived>()) {
      REQUIRE(arrived.version == Version{step});
      REQUIRE(*reinterpret_cast<const float*>(arrived.payload.data) == static_cast<float>(step));
    }
    harness->PushAll(ready[0].work, {0, 1});
    harness->StageAll(step, {0, 1});
    REQUIRE(harness->session->links().unstaged_pushes() == 0);
  }
  View view = harness->MakeView({});
  view.phase = JobPhase::kDone;
  harness->FromCoordinator(view);
  REQUIRE(harness->Events<session::Session::Finished>().size() == 1);
}

TEST_CASE("strangers, and shards of another life, do not touch a session's work", "[client][hostile]") {
  const std::uint64_t first = testing::TestSeed();
  for (std::uint64_t seed = first; seed != first + Seeds(); ++seed) {
    INFO("seed " << seed);
    session::SessionHarness harness;
    const session::RoundWork work = harness.Join({0}).BeginWork();
    harness.Push(work, {0, 1}, 3);
    harness.Forget();
    HostileMessages hostile(seed, OfSession());
    for (int i = 0; i < kMessages; ++i) {
      Message message = MakeAttack(&hostile, &harness);
      const bool stranger = hostile.Chance(50);
      if (auto* staged = message.header.As<Staged>()) staged->incarnation = Incarnation{49};
      if (auto* weights = message.header.As<Weights>()) weights->incarnation = Incarnation{49};
      if (auto* published = message.header.As<Published>()) published->incarnation = Incarnation{49};
      if (auto* error = message.header.As<Error>()) error->incarnation = Incarnation{49};
      harness.FromShard(stranger ? 7 : 1, std::move(message.header), std::move(message.payload));
      REQUIRE(harness.NoEvents());
    }
    REQUIRE(harness.session->links().unstaged_pushes() == 1);
    REQUIRE(harness.session->step() == Step{0});
    harness.PushAll(work, {0, 1});
    harness.StageAll(0, {0, 1});
    REQUIRE(harness.session->links().unstaged_pushes() == 0);
    GoOnToTheEnd(&harness);
  }
}

}  // namespace
}  // namespace capstan::client
