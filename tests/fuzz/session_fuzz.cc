// A worker's session under attack: no message of a coordinator, shard or stranger crashes it or gives the program
// invalid work or weights. A session that fails names a peer or the job in its reason.
#include "tests/fuzz/peer_script.h"
#include "tests/fuzz/target.h"
#include "tests/worker/session/session_harness.h"
#include "worker/client/slot_sums.h"

namespace capstan::fuzz {
namespace {

using namespace session;
using client::SlotSums;

constexpr std::size_t kBlocks = 4;

class AttackedSession {
 public:
  explicit AttackedSession(std::string_view bytes)
      : script_(bytes, {1, {50, 51, 49}, {0, 1, 2, 4}, {16, 0, 8}, {1, 2}}),
        mode_(kModes[script_.Below(3)]),
        harness_(mode_, kBlocks) {
    harness_.Declare();
    if (script_.Flag()) harness_.FromCoordinator(harness_.MakeView({0, 1}));
  }

  void Run() {
    while (script_.Goes()) {
      harness_.Forget();
      Act();
      TakeEvents();
      // One call may ask both shards for what the session lacks, and may send every unstaged push again.
      CheckAnswers(harness_.out(), 64 + 4 * pushed_);
      Require(harness_.session->links().unstaged_pushes() <= pushed_, "a session keeps what its program has pushed");
      (void)harness_.session->WaitingFor();
    }
  }

 private:
  static constexpr Mode kModes[] = {Mode::kSync, Mode::kAsync, Mode::kAllReduce};

  void Act() {
    const std::uint64_t action = script_.Below(8), from = script_.Below(4);
    switch (action) {
      case 0: return Send(from, script_.Frame());
      case 1: return Send(from, script_.Any());
      case 2: return Send(3, script_.Near(AsCoordinator()));
      case 3: {
        const auto shard = static_cast<ShardIndex>(script_.Below(2));
        return Send(shard, script_.Near(AsShard(shard)));
      }
      case 4: return harness_.Tick(script_.Pause());
      case 5: return Help();
      default: return RoundWork();
    }
  }
  // Delivers a message from one of the two shards, a stranger or the coordinator.
  void Send(std::uint64_t from, std::optional<Message> message) {
    if (!message) return;
    if (from == 3) return harness_.FromCoordinator(std::move(message->header));
    harness_.FromShard(static_cast<ShardIndex>(from == 2 ? 7 : from), std::move(message->header),
                       std::move(message->payload));
  }
  Header AsCoordinator() {
    if (script_.Below(8) == 0) return Error{Code::kStale, {}, {}, {}, {}, 0, "join again"};
    View view = harness_.MakeView({}, harness_.session->generation().value + script_.Below(2));
    for (SlotIndex slot = 0; slot < SessionHarness::kSlots; ++slot) {
      if (script_.Flag()) view.slots.push_back(slot);
    }
    view.step = Step{harness_.session->step().value + script_.Below(2)};
    view.barrier = script_.Below(3);
    view.group_epoch = script_.Below(3);
    view.founder = script_.Below(8) == 1;
    view.phase = script_.Below(8) == 1 ? JobPhase::kDone : JobPhase::kRunning;
    if (script_.Flag()) view.group = {{"w", "here"}, {"v", script_.Flag() ? "there" : ""}};
    view.group_rank = static_cast<std::uint32_t>(script_.Below(3));
    return view;
  }
  Header AsShard(ShardIndex shard) {
    const std::uint64_t step = harness_.session->step().value + script_.Below(2);
    const BlockIndex block = shard + 2 * static_cast<BlockIndex>(script_.Below(2));
    switch (script_.Below(6)) {
      case 0: return harness_.MakeCoverage(shard, step, {{block, {0, 1}}}, {shard});
      case 1: return harness_.MakeStaged(shard, step, {{block, {0, 1}}});
      case 2: {
        Weights weights = harness_.MakeWeights(block, step, {});
        weights.speculative = script_.Flag();
        return weights;
      }
      case 3: return harness_.MakeError(shard, static_cast<Code>(script_.Below(9)), step);
      case 4: return UploadAck{harness_.session->generation(), Incarnation{50 + shard}, shard, {block}, Step{step}};
      default: {
        Published published;
        published.generation = published.made_in = harness_.session->generation();
        published.incarnation = Incarnation{50 + shard};
        published.version = Version{step};
        return published;
      }
    }
  }
  // Makes a correct call or delivers correct messages, so that the session makes progress.
  void Help() {
    const std::uint64_t step = harness_.session->step().value;
    switch (script_.Below(4)) {
      case 0: return harness_.Ready();
      case 1: return harness_.NothingCovered(step);
      case 2: return harness_.SendAllWeights(step);
      default: return harness_.StageAll(step, {0, 1});
    }
  }
  // Makes one of the calls that a training program makes.
  void RoundWork() {
    static constexpr PushWay kWays[] = {PushWay::kNow, PushWay::kDeferred};
    switch (script_.Below(8)) {
      case 0: return harness_.Barrier();
      case 1: return ReportGroup();
      case 2: return Give();
      case 3: return harness_.session->ReleasePushes(work_.round, harness_.now, &out_);
      case 4: return harness_.session->SumsMade(work_.round, harness_.now);
      default:
        if (work_.slots.empty()) return;
        const SlotIndex slot = work_.slots[script_.Below(work_.slots.size())];
        const PushWay way = kWays[script_.Below(2)];
        for (BlockIndex block = kBlocks; block-- > 0;) harness_.Push(work_, {slot, slot + 1}, block, 1, way);
        pushed_ += kBlocks;
        harness_.EndSlot(work_, slot);
    }
  }
  void ReportGroup() {
    const auto state = static_cast<GroupState>(script_.Below(5));
    harness_.session->ReportGroup(harness_.session->generation(), state, "here", harness_.now, &out_);
    harness_.session->ReportMachineGroup(epoch_, state, "here", harness_.now, &out_);
  }
  void Give() {
    if (mode_ != Mode::kAllReduce) return;
    const Slice weights = harness_.Values(kBlocks * SessionHarness::kBlockElements, 1.0F);
    harness_.session->UploadVersion(work_.round, {weights}, {0, 1, 2, 3}, harness_.now, &out_);
  }

  void TakeEvents() {
    CheckAnswers(out_, 64 + 4 * pushed_);
    out_.Clear();
    for (const Session::WorkReady& ready : harness_.Events<Session::WorkReady>()) TakeWork(ready.work);
    for (const Session::WeightsArrived& weights : harness_.Events<Session::WeightsArrived>()) {
      Require(weights.block < kBlocks, "weights are of a block of the catalog");
      Require(weights.payload.size == SessionHarness::kBlockElements * sizeof(float), "weights are a block's");
    }
    for (const Session::MachineGrouping& group : harness_.Events<Session::MachineGrouping>()) {
      epoch_ = group.epoch;
      const auto size = static_cast<int>(group.members.size());
      Require(group.rank >= 0 && (size == 0 || group.rank < size), "a rank is one of the group's");
    }
    for (const Session::GroupKnown& group : harness_.Events<Session::GroupKnown>()) {
      Require(group.rank >= 0 && group.rank < static_cast<int>(group.members.size()), "a rank is one of the group's");
    }
    for (const Session::Failed& failed : harness_.Events<Session::Failed>()) TakeFailure(failed.status.message());
  }
  void TakeWork(const capstan::session::RoundWork& work) {
    const SlotSums sums(work.slots, ReductionTree(work.slot_count));  // aborts on slots that are not the job's
    Require(!sums.slots().empty(), "work has slots");
    Require(work.group.empty() || work.rank < static_cast<int>(work.group.size()), "a rank is one of the group's");
    work_ = work;
  }
  static void TakeFailure(const std::string& why) {
    const auto names = [&](const char* whom) { return why.find(whom) != std::string::npos; };
    Require(names("the coordinator") || names("shard ") || names("the job "), "\"" + why + "\" names a peer");
  }

  PeerScript script_;
  const Mode mode_;
  SessionHarness harness_;
  Outbox out_;
  capstan::session::RoundWork work_;
  std::uint64_t epoch_ = 0;
  std::size_t pushed_ = 0;
};

void RunSession(std::string_view bytes) { AttackedSession(bytes).Run(); }

const Registered session_target({"session", RunSession});

}  // namespace
}  // namespace capstan::fuzz
