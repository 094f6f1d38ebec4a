// A coordinator under attack: no message of strangers, workers or shards crashes it. The coordinator keeps a bounded
// number of members and answers with a bounded number of messages. If it gives the job up, it names a peer as the
// reason. Messages of strangers and workers do not prevent a job with correct shards from finishing.
#include <algorithm>

#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job/snapshot_section.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/shard_orders.h"
#include "server/coordinator/followers.h"
#include "server/coordinator/membership.h"
#include "tests/fuzz/peer_script.h"
#include "tests/fuzz/target.h"
#include "tests/server/coordinator/coordinator_harness.h"

namespace capstan::fuzz {
namespace {

using namespace server;
using State = Coordinator::State;

class AttackedCoordinator {
 public:
  explicit AttackedCoordinator(std::string_view bytes)
      : script_(bytes, {1, {50, 51, 60}, {0, 1, 2}, {0}, {1, 2}}), flags_(script_.Below(256)), harness_(2, 2, mode()) {
    if ((flags_ & 4) != 0 && HasGlobalSteps(mode())) harness_.config.optimizer.kind = OptimizerKind::kLamb;
    if ((flags_ & 8) != 0) harness_.config.snapshot.every_steps = 1;
    if ((flags_ & 32) != 0 && mode() == Mode::kAsync) harness_.config.job.acknowledge = Acknowledge::kDurable;
    if (shards_are_sound()) harness_.config.limits.stall = 0;
    harness_.Run();
  }

  void Run() {
    while (script_.Goes()) {
      harness_.Forget();
      Act();
      Check();
    }
    if (shards_are_sound() && mode() == Mode::kSync && (flags_ & 4) == 0) EndsAsWithoutThem();
  }

 private:
  Mode mode() const {
    static constexpr Mode kModes[] = {Mode::kSync, Mode::kAsync, Mode::kBounded, Mode::kAllReduce};
    return kModes[flags_ & 3];
  }
  bool shards_are_sound() const { return (flags_ & 16) != 0; }

  void Act() {
    const std::uint64_t action = script_.Below(8);
    const PeerId from = Somebody();
    if (shards_are_sound() && action > 4) return;
    switch (action) {
      case 0: return Send(from, script_.Frame());
      case 1: return Send(from, script_.Any());
      case 2: return Send(from, script_.Near(AsWorker()));
      case 3: return Send(from, script_.Near(AsShard(static_cast<ShardIndex>(script_.Below(2)))));
      case 4: return harness_.Tick(script_.Pause());
      case 5: return SendAsShard(static_cast<ShardIndex>(script_.Below(2)));
      case 6: return LiveOn();
      default: return Operate();
    }
  }
  // Returns a sender: one of two strangers, a worker or, unless the shards are correct, one of two shards.
  PeerId Somebody() {
    const PeerId peers[] = {CoordinatorHarness::kStranger, PeerId{4000},
                            CoordinatorHarness::PeerOf(harness_.MakeJoin("w0")), harness_.shards[0].peer,
                            harness_.shards[1].peer};
    return peers[script_.Below(shards_are_sound() ? 3 : 5)];
  }
  void Send(PeerId from, std::optional<Message> message) {
    if (!message || TakesAShardsPlace(message->header)) return;
    harness_.Send(from, std::move(message->header));
  }
  // Whether the message is the Hello of a later incarnation of a correct shard. Such a message is not sent, because the
  // coordinator cannot tell it from the Hello of a restarted shard.
  bool TakesAShardsPlace(const Header& header) const {
    const auto* hello = header.As<Hello>();
    return shards_are_sound() && hello != nullptr && hello->shard < harness_.shards.size() &&
           hello->incarnation > harness_.shards[hello->shard].hello.incarnation;
  }
  void SendAsShard(ShardIndex shard) { Send(harness_.shards[shard].peer, script_.Near(AsShard(shard))); }
  Header AsWorker() {
    const std::string name = script_.Flag() ? "w0" : "w9";
    const Join join = harness_.MakeJoin(name, script_.Below(3));
    switch (script_.Below(4)) {
      case 0: return join;
      case 1: return harness_.MakeLeave(join);
      default: {
        Heartbeat beat = harness_.MakeHeartbeat(join);
        if (beat.session.value == 0) beat.session = SessionId{script_.Below(4)};
        beat.generation = harness_.coordinator->generation();
        beat.step = harness_.coordinator->step();
        beat.group = static_cast<GroupState>(script_.Below(5));
        beat.group_text = "address";
        beat.barrier = script_.Below(3);
        beat.missing = {static_cast<ShardIndex>(script_.Below(3))};
        return beat;
      }
    }
  }
  Header AsShard(ShardIndex shard) {
    const std::uint64_t step = harness_.coordinator->step().value;
    const Generation generation = harness_.coordinator->generation();
    const Incarnation incarnation = harness_.shards[shard].hello.incarnation;
    switch (script_.Below(8)) {
      case 0: return HelloOf(shard);
      case 1: return harness_.MakePrepared(shard, step, 1.0, static_cast<std::uint32_t>(script_.Below(3)));
      case 2: return Committed{shard, incarnation, generation, Step{step - script_.Below(2)}};
      case 3: return ResetDone{shard, incarnation, generation};
      case 4: return ResetBad{shard, incarnation, generation, "its disk is full"};
      case 5: return harness_.MakeDone(shard, step);
      default: {
        Progress progress{shard, incarnation, generation, {{step + script_.Below(3)}, {step + script_.Below(3)}}, {}};
        for (SlotIndex slot = 0; slot < 2; ++slot)
          progress.reports.push_back({SequenceNumber{step + 1}, ReportOf(slot)});
        return progress;
      }
    }
  }
  Hello HelloOf(ShardIndex shard) {
    Hello hello = harness_.shards[shard].hello;
    hello.term = Term{harness_.coordinator->term().value + script_.Below(2)};
    hello.generation = harness_.coordinator->generation();
    hello.serving = script_.Flag();
    if (script_.Flag()) hello.job = {1, 2};
    if (script_.Flag()) hello.parts = {CoordinatorHarness::PartOf({hello.generation, hello.version}, shard)};
    if (script_.Flag()) hello.incarnation = hello.incarnation.Next();
    if (!script_.Flag()) return hello;
    hello.version = Version{harness_.coordinator->step().value};
    hello.last_commit = Commit{hello.term, hello.generation, Step{hello.version.value - 1}, 0, StepAction::kApply, {}};
    hello.prepared = harness_.MakePrepared(shard, hello.version.value);
    return hello;
  }
  static SlotReport ReportOf(SlotIndex slot) {
    SlotReport report;
    report.slot = slot;
    report.samples = 1;
    return report;
  }
  // Sends what correct shards and workers send to continue the job.
  void LiveOn() {
    harness_.ShardsEchoTerm();
    for (const char* name : {"w0", "w1"}) harness_.Joins(name);
    for (ShardIndex shard : {0U, 1U}) {
      if (!harness_.TakeFromShard<Reset>(shard).empty()) harness_.AnswerReset(shard);
    }
    if (harness_.coordinator->state() == State::kRunning && mode() == Mode::kSync) {
      harness_.DoStep(harness_.coordinator->step().value);
    }
  }
  void Operate() {
    switch (script_.Below(6)) {
      case 0: return harness_.Live();  // a coordinator restarted on the log of the previous one
      case 1: return harness_.coordinator->RequestStop(harness_.now);
      case 2: return harness_.coordinator->Shutdown();
      case 3: return harness_.coordinator->WorkerDied("w0", harness_.now, &died_);
      case 4: harness_.accept_rollback = true; return harness_.Live();
      default:
        if (harness_.coordinator->state() == State::kFinished) harness_.Conclude();
    }
  }

  void Check() {
    const Coordinator& coordinator = *harness_.coordinator;
    // One message causes at most a few views per member and a few orders per shard; the bound allows 8. LiveOn sends
    // several messages in a call; the bound allows 20.
    CheckAnswers(harness_.out(), 20 * 8 * (coordinator.worker_count() + harness_.shards.size() + 1));
    CheckAnswers(died_, 8 * (coordinator.worker_count() + 1));
    died_.Clear();
    Require(coordinator.worker_count() <= kWorkersMax, "the members are bounded");
    Require(coordinator.followers().size() <= Followers::kFollowersMax, "the readers are bounded");
    Require(harness_.coordinator->TakeRecords().size() <= harness_.config.job.steps,
            "a message ends a job's steps at most");
    (void)coordinator.WaitingFor(harness_.now);
    (void)coordinator.ReaderView();
    if (coordinator.state() != State::kFailed) return;
    const std::string& why = coordinator.failure().message();
    const auto names = [&](const char* whom) { return why.find(whom) != std::string::npos; };
    Require(names("server ") || names("shard ") || names("worker") || names("slot ") || names("\"w"),
            "\"" + why + "\" names a peer");
  }

  // Checks that the job of the correct shards still finishes, whatever messages it got.
  void EndsAsWithoutThem() {
    for (int turn = 0; turn < 80 && harness_.coordinator->state() != State::kFinished; ++turn) {
      LiveOn();
      harness_.Forget();
      harness_.Tick(std::chrono::milliseconds(500));
    }
    Require(harness_.coordinator->state() == State::kFinished, "a job of sound shards ends");
    Require(harness_.coordinator->step() == Step{harness_.config.job.steps}, "with its last step");
  }

  PeerScript script_;
  const std::uint64_t flags_;
  CoordinatorHarness harness_;
  Outbox died_;
};

void RunCoordinator(std::string_view bytes) { AttackedCoordinator(bytes).Run(); }

const Registered coordinator_target({"coordinator", RunCoordinator});

}  // namespace
}  // namespace capstan::fuzz
