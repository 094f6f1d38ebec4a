// A shard under attack: no message of any peer, the coordinator included, crashes it. Such messages take a bounded
// share of the shard's memory, and do not prevent a correct coordinator from making the shard serve again.
#include <cstring>

#include "common/wire/messages/fetched.h"
#include "tests/fuzz/peer_script.h"
#include "tests/fuzz/target.h"
#include "tests/server/shard/shard_harness.h"

namespace capstan::fuzz {
namespace {

using namespace server;

constexpr SnapshotId kRetained{Generation{1}, Version{0}};

ShardHarnessOptions OptionsOf(std::uint64_t flags) {
  static constexpr Mode kModes[] = {Mode::kSync, Mode::kAsync, Mode::kBounded, Mode::kAllReduce};
  ShardHarnessOptions options;
  options.mode = kModes[flags & 3];
  if (options.mode == Mode::kAsync && (flags & 4) != 0) options.acknowledge = Acknowledge::kDurable;
  if ((flags & 8) != 0) options.optimizer = OptimizerKind::kLamb;
  if ((flags & 16) != 0) options.encoding = Encoding::kBf16;
  if ((flags & 32) != 0) options.groups = 2;
  options.log_records_max = 8;
  return options;
}

class AttackedShard {
 public:
  explicit AttackedShard(std::string_view bytes)
      : script_(bytes, {1, {7, 6}, {0, 1, 2, 3}, {16, 0, 8}, {1, 2}}),
        options_(OptionsOf(script_.Below(256))),
        harness_(options_) {}

  void Run() {
    while (script_.Goes() && !harness_.shard->shut_down()) {
      harness_.generation = harness_.shard->generation();
      harness_.Forget();
      harness_.payloads.clear();
      asked_to_end_ = false;
      Act();
      Check();
    }
    if (!harness_.shard->shut_down()) ServesAgain();
  }

 private:
  void Act() {
    const std::uint64_t action = script_.Below(8);
    const PeerId from = PeerOf(script_.Below(5));
    switch (action) {
      case 0: return Send(from, script_.Frame());
      case 1: return Send(from, script_.Any());
      case 2: return Send(ShardHarness::kCoordinator, script_.Near(AsCoordinator()));
      case 3: return Send(from, script_.Near(AsWorker()));
      case 4: return harness_.Tick(script_.Pause());
      case 5: return HoldOrLetGo();
      case 6: return Help();
      default: return Send(from, script_.Near(OfShard()));
    }
  }
  // Returns the coordinator, one of two workers, or one of two shards.
  static PeerId PeerOf(std::uint64_t who) {
    return who < 3 ? PeerId{1 + who} : ShardHarness::PeerOf(static_cast<ShardIndex>(who - 3));
  }
  void Send(PeerId from, std::optional<Message> message) {
    if (!message || !IsSmallEnough(message->header)) return;
    if (from != ShardHarness::kCoordinator) {
      const Slice kept = message->payload;
      const bool lends = kept.owner && TakesLent(*harness_.shard, message->header) && ++lendable_ % 2 == 0;
      if (lends) message->payload.owner = {};
      harness_.FromWorker(std::move(message->header), std::move(message->payload), from);
      if (lends) std::memset(kept.owner->data(), 0xA5, kept.owner->size());  // its sender uses the memory again
      return;
    }
    const auto* error = message->header.As<Error>();
    asked_to_end_ = message->header.Is<Shutdown>() || (error != nullptr && error->code == Code::kRefused);
    harness_.FromCoordinator(std::move(message->header));
  }
  static bool IsSmallEnough(const Header& header) {
    const auto* reset = header.As<Reset>();
    return reset == nullptr || (IsSmall(reset->catalog) && (reset->slot_count <= 64 || reset->slot_count > 4096));
  }
  // Returns a message that a coordinator could send to a shard in this state, or a few steps away from it.
  Header AsCoordinator() {
    const std::uint64_t step = harness_.shard->version().value;
    const auto attempt = static_cast<std::uint32_t>(harness_.shard->engine().attempt() + script_.Below(2));
    Header header = MakeOrder(step, attempt);
    header.VisitAs<Ping, Reset, Commit, Redo, ClockUpdate, Pin, RetainedSnapshots, LiveSessions, Shutdown>(
        [&](auto& body) { body.term = harness_.shard->term(); });
    return header;
  }
  Header MakeOrder(std::uint64_t step, std::uint32_t attempt) {
    const std::uint64_t generation = harness_.generation.value;
    switch (script_.Below(13)) {
      case 0: return harness_.MakeReset(generation + script_.Below(2));
      case 1: return harness_.MakeResetTo(generation + 1, {Part()});
      case 2: return harness_.MakeCommit(step, attempt, script_.Flag() ? StepAction::kSkip : StepAction::kApply);
      case 3: return harness_.MakeRedo(step, attempt, 0.5F, {2.0F, 3.0F, 4.0F});
      case 4: return ClockUpdate{{}, harness_.generation, SequenceNumber{step}, harness_.MakeCommit(step).next};
      case 5: return harness_.MakeSnapshotCommit(step);
      case 6: return harness_.MakePin(step);
      case 7: return harness_.MakeRetained({Part().id}, Part().id);
      case 8: return Ping{{}, harness_.generation};
      case 9: return Shutdown{{}, harness_.generation};
      case 11: {
        LiveSession session = harness_.MakeSession(1 + script_.Below(2));
        if (script_.Flag()) session.slots = {{0, 2}};
        const std::uint64_t sequence = harness_.shard->sessions().sequence(harness_.shard->term());
        return LiveSessions{{}, sequence + script_.Below(3), script_.Flag() ? sequence : 0, {session}, {}};
      }
      case 10: return Error{Code::kRefused, harness_.generation, Incarnation{7}, {}, {}, 0, "two of one index"};
      default: {
        Reset reset = harness_.MakeReset(generation + 1);
        reset.timeline = harness_.shard->timeline();
        return reset;
      }
    }
  }
  // Returns a snapshot part that is on this shard's disk, or one that is on another shard's.
  SnapshotPart Part() {
    const std::vector<SnapshotPart> parts = harness_.disk.List();
    if (parts.empty() || script_.Flag()) return {kRetained, 1, 5};
    return parts[script_.Below(parts.size())];
  }
  Header AsWorker() {
    const std::uint64_t step = harness_.shard->version().value + script_.Below(2);
    const auto block = static_cast<BlockIndex>(script_.Below(3));
    const auto slot = static_cast<SlotIndex>(script_.Below(3));
    switch (script_.Below(5)) {
      case 0: return harness_.MakePush(step, block, {slot, slot + 1}, 1, {});
      case 1: return harness_.MakeEnd(step, slot);
      case 2: {
        Pull pull = harness_.MakePull(step, {block, 1});
        pull.follows = script_.Flag();
        if (pull.follows) pull.speculative = {0, 2};
        return pull;
      }
      case 3: return CoverageQuery{harness_.generation, Incarnation{7}, SessionId{1}, Step{step}};
      default: return UploadBlock{harness_.generation, Incarnation{7}, SessionId{1}, block, 0, Step{step}, slot};
    }
  }
  Header OfShard() {
    const SnapshotPart part = Part();
    const auto block = script_.Flag() ? kFetchHeader : static_cast<BlockIndex>(script_.Below(3));
    if (script_.Flag()) return Fetch{part.id, part.part, block, script_.Below(2)};
    return Fetched{part.id, part.part, block, 0, 1, {}, 0, {}, 1};
  }
  void HoldOrLetGo() {
    switch (script_.Below(4)) {
      case 0: return harness_.HoldDisk();
      case 1: return harness_.LetDiskGo();
      case 2: return harness_.HoldLog();
      default: return harness_.LetLogGo();
    }
  }
  // Sends all pushes of a step, so that later messages of the attack may meet a prepared step.
  void Help() {
    if (harness_.shard->serving()) harness_.CompleteStep(harness_.shard->version().value + script_.Below(2), 1.0F);
  }

  void Check() {
    // A pull is answered with at most kBlocksMax blocks. The second kBlocksMax is room for all other answers.
    CheckAnswers(harness_.out(), 2 * PullQueue::kBlocksMax);
    const std::size_t blocks = harness_.shard->serving() ? harness_.shard->store().size() : 0;
    if (blocks > 0) {  // two payloads for each, with any number of senders
      Require(harness_.shard->engine().staged_bytes() <= 2 * blocks * options_.block_elements * sizeof(float),
              "a shard stages at most two payloads for each block");
    }
    Require(harness_.waiting_log_work.size() <= PeerScript::kActionsMax,
            "the log is asked for a bounded number of things");
    if (!harness_.shard->shut_down()) return;
    Require(asked_to_end_, "a shard ends when its coordinator asks it to");
    for (const Notice& notice : harness_.notices()) {
      if (notice.severity != Severity::kError) continue;
      Require(notice.text.find("coordinator") != std::string::npos, "\"" + notice.text + "\" names the coordinator");
    }
  }

  // Acts as a correct coordinator that makes the shard begin another generation and do a step.
  void ServesAgain() {
    constexpr std::uint64_t kLivesMax = std::uint64_t{1} << 48;  // generations of a job; the coordinator's own limit
    if (harness_.shard->generation().value > kLivesMax) return;
    harness_.LetDiskGo();
    harness_.LetLogGo();
    harness_.generation = harness_.shard->generation().Next();
    Reset reset = harness_.MakeReset(harness_.generation.value);
    reset.term = harness_.shard->term().Next();  // another coordinator, whose list of sessions replaces every other
    harness_.FromCoordinator(reset);
    harness_.Tell({harness_.MakeSession(1)});
    Require(harness_.shard->serving() && harness_.shard->generation() == harness_.generation,
            "a sound coordinator has the shard serve a new generation");
    if (options_.mode != Mode::kSync || options_.groups != 0 || options_.encoding != Encoding::kFp32) return;
    harness_.Forget();
    harness_.CompleteStep(0, 4.0F);
    Require(harness_.Take<Prepared>(ShardHarness::kCoordinator).size() == 1, "the shard prepares a step of it");
    if (options_.optimizer != OptimizerKind::kSgd) return;  // trust ratios have their own test
    Commit commit = harness_.MakeCommit(0);
    commit.term = reset.term;
    harness_.FromCoordinator(commit);
    Require(harness_.shard->version() == Version{1} && harness_.WeightOf(0) == -4.0F, "and publishes its weights");
  }

  PeerScript script_;
  const ShardHarnessOptions options_;
  ShardHarness harness_;
  bool asked_to_end_ = false;
  std::uint64_t lendable_ = 0;  // payloads that the shard would have taken lent; every second one was
};

void RunShard(std::string_view bytes) { AttackedShard(bytes).Run(); }

const Registered shard_target({"shard", RunShard});

}  // namespace
}  // namespace capstan::fuzz
