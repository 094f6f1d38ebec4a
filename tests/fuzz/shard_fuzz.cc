// A shard under attack: no message of any peer, the coordinator included, crashes it. They use a bounded share of its
// memory, and do not prevent a correct coordinator from making it serve again.
#include "common/wire/messages/fetched.h"
#include "tests/fuzz/peer_script.h"
#include "tests/fuzz/target.h"
#include "tests/server/shard/shard_bench.h"

namespace capstan::fuzz {
namespace {

using namespace server;

constexpr SnapshotId kKept{Generation{1}, Version{0}};

ShardBenchOptions OptionsOf(std::uint64_t flags) {
  static constexpr Mode kModes[] = {Mode::kSync, Mode::kAsync, Mode::kBounded, Mode::kAllReduce};
  ShardBenchOptions options;
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
        bench_(options_) {}

  void Run() {
    while (script_.Goes() && !bench_.shard->shut_down()) {
      bench_.generation = bench_.shard->generation();
      bench_.Forget();
      bench_.payloads.clear();
      asked_to_end_ = false;
      Act();
      Check();
    }
    if (!bench_.shard->shut_down()) ServesAgain();
  }

 private:
  void Act() {
    const std::uint64_t action = script_.Below(8);
    const PeerId from = PeerOf(script_.Below(5));
    switch (action) {
      case 0: return Say(from, script_.Frame());
      case 1: return Say(from, script_.Any());
      case 2: return Say(ShardBench::kCoordinator, script_.Near(AsCoordinator()));
      case 3: return Say(from, script_.Near(AsWorker()));
      case 4: return bench_.Tick(script_.Pause());
      case 5: return HoldOrLetGo();
      case 6: return Help();
      default: return Say(from, script_.Near(OfShard()));
    }
  }
  // Returns the coordinator, one of two workers, or one of two shards.
  static PeerId PeerOf(std::uint64_t who) {
    return who < 3 ? PeerId{1 + who} : ShardBench::PeerOf(static_cast<ShardIndex>(who - 3));
  }
  void Say(PeerId from, std::optional<Message> message) {
    if (!message || !IsSmallEnough(message->header)) return;
    if (from != ShardBench::kCoordinator) {
      return bench_.FromWorker(std::move(message->header), std::move(message->payload), from);
    }
    const auto* error = message->header.As<Error>();
    asked_to_end_ = message->header.Is<Shutdown>() || (error != nullptr && error->code == Code::kRefused);
    bench_.FromCoordinator(std::move(message->header));
  }
  static bool IsSmallEnough(const Header& header) {
    const auto* reset = header.As<Reset>();
    return reset == nullptr || (IsSmall(reset->catalog) && (reset->slot_count <= 64 || reset->slot_count > 4096));
  }
  // Returns a message that a correct coordinator may send to a shard in this state.
  Header AsCoordinator() {
    const std::uint64_t step = bench_.shard->version().value;
    const auto attempt = static_cast<std::uint32_t>(bench_.shard->engine().attempt() + script_.Below(2));
    Header header = MakeOrder(step, attempt);
    header.VisitAs<Ping, Reset, Commit, Redo, Rates, Pin, SnapshotsKept, Shutdown>(
        [&](auto& body) { body.term = bench_.shard->term(); });
    return header;
  }
  Header MakeOrder(std::uint64_t step, std::uint32_t attempt) {
    const std::uint64_t generation = bench_.generation.value;
    switch (script_.Below(12)) {
      case 0: return bench_.MakeReset(generation + script_.Below(2));
      case 1: return bench_.MakeResetTo(generation + 1, {Part()});
      case 2: return bench_.MakeCommit(step, attempt, script_.Flag() ? StepAction::kSkip : StepAction::kApply);
      case 3: return bench_.MakeRedo(step, attempt, 0.5F, {2.0F, 3.0F, 4.0F});
      case 4: return Rates{{}, bench_.generation, Step{step}, bench_.MakeCommit(step).next};
      case 5: return bench_.MakeSnapshotCommit(step);
      case 6: return bench_.MakePin(step);
      case 7: return bench_.MakeKept({Part().id}, Part().id);
      case 8: return Ping{{}, bench_.generation};
      case 9: return Shutdown{{}, bench_.generation};
      case 10: return Error{Code::kRefused, bench_.generation, Incarnation{7}, {}, {}, 0, "two of one index"};
      default: {
        Reset reset = bench_.MakeReset(generation + 1);
        reset.history = bench_.shard->history();
        return reset;
      }
    }
  }
  // Returns a part that is on this shard's disk, or one that is elsewhere.
  SnapshotPart Part() {
    const std::vector<SnapshotPart> parts = bench_.disk.List();
    if (parts.empty() || script_.Flag()) return {kKept, 1, 5};
    return parts[script_.Below(parts.size())];
  }
  Header AsWorker() {
    const std::uint64_t step = bench_.shard->version().value + script_.Below(2);
    const auto block = static_cast<BlockIndex>(script_.Below(3));
    const auto slot = static_cast<SlotIndex>(script_.Below(3));
    switch (script_.Below(5)) {
      case 0: return bench_.MakePush(step, block, {slot, slot + 1}, 1, {});
      case 1: return bench_.MakeEnd(step, slot);
      case 2: {
        Pull pull = bench_.MakePull(step, {block, 1});
        pull.follows = script_.Flag();
        if (pull.follows) pull.ahead = {0, 2};
        return pull;
      }
      case 3: return CoverageQuery{bench_.generation, Incarnation{7}, SessionId{1}, Step{step}};
      default: return Assign{bench_.generation, Incarnation{7}, SessionId{1}, block, 0, Step{step}, slot};
    }
  }
  Header OfShard() {
    const SnapshotPart part = Part();
    const auto block = script_.Flag() ? kFetchHeader : static_cast<BlockIndex>(script_.Below(3));
    if (script_.Flag()) return Fetch{part.id, part.part, block};
    return Fetched{part.id, part.part, block, 0, 1, {}, 0, {}, 1};
  }
  void HoldOrLetGo() {
    switch (script_.Below(4)) {
      case 0: return bench_.HoldDisk();
      case 1: return bench_.LetDiskGo();
      case 2: return bench_.HoldLog();
      default: return bench_.LetLogGo();
    }
  }
  // Sends a step's pushes, so that an attack may meet a prepared step.
  void Help() {
    if (bench_.shard->serving()) bench_.CompleteStep(bench_.shard->version().value + script_.Below(2), 1.0F);
  }

  void Check() {
    // A pull names at most kBlocksMax blocks, and a batch of pushes is acknowledged to at most as many peers.
    CheckAnswers(bench_.out(), 2 * PullQueue::kBlocksMax);
    const std::size_t blocks = bench_.shard->serving() ? bench_.shard->store().size() : 0;
    if (blocks > 0) {  // two payloads for each, with any number of senders
      Require(bench_.shard->engine().staged_bytes() <= 2 * blocks * options_.block_elements * sizeof(float),
              "a shard stages at most two payloads for each block");
    }
    Require(bench_.waiting_log_work.size() <= PeerScript::kActionsMax,
            "the log is asked for a bounded number of things");
    if (!bench_.shard->shut_down()) return;
    Require(asked_to_end_, "a shard ends when its coordinator asks it to");
    for (const Notice& notice : bench_.notices()) {
      if (notice.severity != Severity::kError) continue;
      Require(notice.text.find("coordinator") != std::string::npos, "\"" + notice.text + "\" names the coordinator");
    }
  }

  // Acts as a correct coordinator that makes the shard begin another generation and do a step.
  void ServesAgain() {
    constexpr std::uint64_t kLivesMax = std::uint64_t{1} << 48;  // generations of a job; the coordinator's own limit
    if (bench_.shard->generation().value > kLivesMax) return;
    bench_.LetDiskGo();
    bench_.LetLogGo();
    bench_.generation = bench_.shard->generation().Next();
    Reset reset = bench_.MakeReset(bench_.generation.value);
    reset.term = bench_.shard->term();
    bench_.FromCoordinator(reset);
    Require(bench_.shard->serving() && bench_.shard->generation() == bench_.generation,
            "a sound coordinator has the shard serve a new generation");
    if (options_.mode != Mode::kSync || options_.groups != 0 || options_.encoding != Encoding::kFp32) return;
    bench_.Forget();
    bench_.CompleteStep(0, 4.0F);
    Require(bench_.Take<Prepared>(ShardBench::kCoordinator).size() == 1, "the shard prepares a step of it");
    if (options_.optimizer != OptimizerKind::kSgd) return;  // trust ratios have their own test
    Commit commit = bench_.MakeCommit(0);
    commit.term = reset.term;
    bench_.FromCoordinator(commit);
    Require(bench_.shard->version() == Version{1} && bench_.WeightOf(0) == -4.0F, "and publishes its weights");
  }

  PeerScript script_;
  const ShardBenchOptions options_;
  ShardBench bench_;
  bool asked_to_end_ = false;
};

void RunShard(std::string_view bytes) { AttackedShard(bytes).Run(); }

const Registered shard_target({"shard", RunShard});

}  // namespace
}  // namespace capstan::fuzz
