// Every message of the protocol, as plain structs: what the cores exchange, whatever carries it.
//
// Kind:   values.
// Limits: the codec (wire_codec.h) bounds every list and text.
// Why:    PROTOCOL.md 3 and 4. A push is named by (generation, step, node, block), never by who sent it; a shard's word
//         carries its incarnation, a coordinator's its term, so that nothing from another life is believed.
#pragma once

#include <capstan/hyper_parameters.h>
#include <capstan/metric.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/buffer.h"
#include "common/catalog.h"
#include "common/reduction_tree.h"
#include "common/status.h"
#include "common/types.h"

namespace capstan {

inline constexpr std::uint64_t kSamplesPerPushMax = std::uint64_t{1} << 24;  // exact in fp32
inline constexpr SlotIndex kSlotsMax = 4096;                                 // of a job
inline constexpr std::size_t kProgramStateBytesMax = 64 << 10;

// All that step k needs before its first block is updated. Decided once, by the coordinator.
struct StepParameters {
  std::uint64_t updates = 0;  // updates applied before this step; the optimizer's t is updates + 1
  float learning_rate = 0.0F;
  float loss_scale = 1.0F;
  std::uint32_t good_steps = 0;  // steps since the loss scale last changed
  bool snapshot = false;         // the version that was just published is to be kept on disk
  bool stop = false;             // there is no step after the version that was just published
  // Opaque: what the program gave with the newest step that it gave one with; kept, and handed to workers, with the
  // version. Empty: none was given.
  std::string program_state;
  // allreduce: the version that this step makes is to be given to the shards, as part of the step.
  bool keep = false;
  // Whether the shards have the blocks of the version that this step begins with; false in allreduce alone.
  bool held = true;
  bool operator==(const StepParameters&) const = default;
};

enum class StepAction : std::uint8_t { kApply = 0, kSkip = 1 };

// A snapshot is named by the generation that took it and the version it holds; generation 0 is none.
struct SnapshotId {
  Generation generation;
  Version version;
  auto operator<=>(const SnapshotId&) const = default;
  bool IsNone() const { return generation.value == 0; }
};

// What one shard wrote of a snapshot, whole and verified, in some process's directory.
struct SnapshotPart {
  SnapshotId id;
  ShardIndex part = 0;  // the index of the shard that wrote it
  std::uint64_t digest = 0;
  bool operator==(const SnapshotPart&) const = default;
};

// ---- coordinator -> shard ------------------------------------------------------------------------------------------

struct Ping {  // raises term_seen; answered with Hello
  Term term;
  Generation generation;
};

// Serve in generation `generation`; bound to one incarnation. A history that begins with it: throw everything away and
// serve the version of `snapshot`, or version 0. An older one: go on where that history was; a shard that has lost it
// finds it in `snapshot` and its log.
struct Reset {
  Term term;
  Generation generation;
  Incarnation incarnation;
  JobId job;
  SnapshotId snapshot;        // none: version 0, whose weights follow from the seed
  StepParameters parameters;  // of the step that begins there
  SlotIndex slot_count = 0;
  std::vector<TensorSpec> catalog;
  struct Source {
    std::uint64_t digest = 0;  // of the part
    std::string endpoint;      // of a shard that has it
    bool operator==(const Source&) const = default;
  };
  std::vector<Source> sources;  // one for each shard that wrote the snapshot
  Generation history;           // the generation in which it began
};

// Keep the version that is published now, as flag `snapshot` of a Commit does; for when no step moves, and for modes
// without global steps.
struct Pin {
  Term term;
  Generation generation;
  Version version;  // sync: the published one; else the slowest slot's clock
};

// The snapshots that exist, oldest first. Every other one that is of an older generation, or not newer than `settled`,
// is to be deleted.
struct SnapshotsKept {
  Term term;
  Generation generation;
  std::vector<SnapshotId> kept;
  SnapshotId settled;  // nothing more needs to be said of this one and of older ones
};

struct Commit {
  Term term;
  Generation generation;
  Step step;
  std::uint32_t attempt = 0;
  StepAction action = StepAction::kApply;
  StepParameters next;  // of step + 1
  bool operator==(const Commit&) const = default;
};

struct Redo {  // prepare `step` again, as attempt `attempt`, from the kept sum
  Term term;
  Generation generation;
  Step step;
  std::uint32_t attempt = 0;
  float clip = 1.0F;
  std::vector<float> trust_ratios;  // by tensor of the catalog; empty: all of them 1
};

struct Rates {  // modes without global steps: parameters from now on; `step` is the slowest slot's clock
  Term term;
  Generation generation;
  Step step;
  StepParameters parameters;
};

struct Shutdown {  // the job is over: stop serving and exit
  Term term;
  Generation generation;
};

// ---- shard -> coordinator ------------------------------------------------------------------------------------------

// What a slot reports once per step, beside its gradient.
struct SlotReport {
  SlotIndex slot = 0;
  std::uint64_t samples = 0;  // n of the slot
  double loss_sum = 0.0;      // summed over `predictions`
  std::uint64_t predictions = 0;
  double validation_loss_sum = 0.0;  // this slot's share of the validation set, with the weights of this step
  std::uint64_t validation_predictions = 0;
  std::uint64_t validation_correct = 0;
  std::vector<Metric> metrics;  // what the program measured beside
  // allreduce: what this slot's worker has of the whole step, the same bits on all of them: the sum of squares of the
  // averaged gradient before clipping, and a hash of that and of some block of the weights that it made.
  double gradient_squares = 0.0;
  std::uint64_t replica_hash = 0;
  bool operator==(const SlotReport&) const = default;
};

// What a shard says of a prepared step: sums of squares of its segments, in catalog order.
struct PrepareReport {
  // Of the averaged gradient before clipping, one per segment of this shard's blocks; non-finite when a gradient was.
  std::vector<double> segment_squares;
  std::vector<SlotReport> slots;             // of the slots whose home is this shard
  std::vector<std::uint64_t> block_samples;  // sum of n per block of this shard (all equal in a sound job)
  std::uint64_t hyper_hash = 0;              // of the hyper-parameters that came with the pushes; 0: none came
  double learning_rate = 0.0;                // of the first group of these; of no meaning where none came
  // Where the optimizer takes a trust ratio, as segment_squares, else empty: of the weights, and of what the update
  // goes along by this attempt's clip factor.
  std::vector<double> weight_squares, direction_squares;
  std::string program_state;   // that came with the ends of slots whose home is this shard; empty: with none
  SlotIndex program_slot = 0;  // the first of them
  bool operator==(const PrepareReport&) const = default;
};

struct Prepared {
  ShardIndex shard = 0;
  Incarnation incarnation;
  Generation generation;
  Step step;
  std::uint32_t attempt = 0;
  PrepareReport report;
};

struct Committed {
  ShardIndex shard = 0;
  Incarnation incarnation;
  Generation generation;
  Step step;
};

struct Hello {
  JobId job;  // null for a shard that keeps nothing on disk
  ShardIndex shard = 0;
  Incarnation incarnation;
  Term term;  // echo of the newest term seen
  Generation generation;
  bool serving = false;  // a Reset of `generation` has been carried out
  Version version;       // published
  std::optional<Commit> last_commit;
  std::optional<Prepared> prepared;
  std::uint64_t config_hash = 0;
  std::string endpoint;             // where workers reach this shard
  std::vector<SnapshotPart> parts;  // that this process can serve
  SnapshotId newest_kept;           // the newest snapshot this directory was ever told of
};

// This shard's part of a snapshot is on disk, or cannot be. Repeated until a SnapshotsKept settles it.
struct SnapshotDone {
  ShardIndex shard = 0;
  Incarnation incarnation;
  Term term;              // echo of the newest term seen: said after whatever an older coordinator had it delete
  Generation generation;  // that the snapshot was taken in
  Version version;
  StepParameters parameters;  // of the step that begins there
  std::uint64_t digest = 0;
  std::uint64_t bytes = 0;
  std::string failure;  // not empty: why there is none
};

struct ResetDone {
  ShardIndex shard = 0;
  Incarnation incarnation;
  Generation generation;
  std::uint64_t digest = 0;  // of the state served
};

struct ResetBad {  // the snapshot asked for cannot be served
  ShardIndex shard = 0;
  Incarnation incarnation;
  Generation generation;
  std::string reason;
};

struct Progress {  // modes without global steps: clocks and the newest reports of this shard's home slots
  ShardIndex shard = 0;
  Incarnation incarnation;
  Generation generation;
  std::vector<std::uint64_t> clocks;  // per slot: pushes applied on all of this shard's blocks
  struct Entry {
    Step step;
    SlotReport report;
  };
  std::vector<Entry> reports;  // repeated until the coordinator's Rates pass them
};

// ---- worker <-> coordinator ----------------------------------------------------------------------------------------

struct Join {
  JobId job;                              // null on the first join
  std::string worker;                     // name; a newer join under the same name takes over
  std::uint64_t nonce = 0;                // one life of the process
  std::string numeric_class;              // build, machine kind, libraries: what bits depend on
  std::uint64_t numeric_fingerprint = 0;  // of a fixed probe of every kernel
  std::uint64_t data_fingerprint = 0;
  std::vector<TensorSpec> catalog;  // empty until the worker has the job file and has built its model
  std::uint32_t rank = 0;           // 0: takes any slots; r: slot r - 1, which nobody else is given
  std::uint32_t ranks = 0;          // with a rank: how many there are
  std::string machine;              // that it runs on; empty: it does not reduce with its neighbours
};

struct ShardAddress {
  ShardIndex shard = 0;
  Incarnation incarnation;
  std::string endpoint;
  bool operator==(const ShardAddress&) const = default;
};

enum class JobPhase : std::uint8_t { kGathering = 0, kRunning = 1, kDone = 2, kFailed = 3 };

// One of the workers that reduce gradients among themselves, in a generation or on a machine.
struct GroupMember {
  SessionId session;
  std::string worker;
  std::string address;  // opaque: how the others reach it; all are empty until all are known
};

// How far a worker is in forming its group. kLost: nobody in it has the version that the job is at.
enum class GroupState : std::uint8_t { kNone = 0, kOffered = 1, kFormed = 2, kBroken = 3, kLost = 4 };

inline constexpr std::size_t kGroupTextBytesMax = std::size_t{64} << 10;

struct View {  // a hint, never a right
  JobId job;
  Term term;
  Generation generation;
  std::uint64_t sequence = 0;  // rises with every change within a term
  SessionId session;
  JobPhase phase = JobPhase::kGathering;
  SlotIndex slot_count = 0;
  std::vector<SlotIndex> slots;  // this worker's
  std::vector<ShardAddress> shards;
  Step step;                        // the coordinator's current step
  std::string message;              // for people: why it failed; to one in a barrier, whom that waits for
  std::string job_file;             // canonical TOML; only in answer to a Join without catalog
  bool founder = false;             // the job's first weights are to come from this worker
  std::vector<TensorSpec> catalog;  // the job's, once known; only in answer to a Join without catalog
  std::uint64_t barrier = 0;        // the newest that was passed, in this term
  Step readable;                    // the newest version that shards have: `step`, in allreduce an earlier one
  // In order of ranks; empty: this worker is none of it. allreduce: of `generation`. sync: those of its machine.
  std::vector<GroupMember> group;
  std::uint64_t group_epoch = 0;  // sync: rises whenever the group is another one, and never falls
};

struct Beat {
  SessionId session;
  std::uint64_t nonce = 0;
  Generation generation;
  Step step;
  bool computing = false;                // false: all it has of `step` is staged, it waits for others
  std::uint64_t view_sequence = 0;       // the newest view held
  std::vector<ShardIndex> missing;       // shards that do not answer
  std::uint64_t barrier = 0;             // the one it waits for; 0: none
  GroupState group = GroupState::kNone;  // allreduce: of `generation`; sync: of `group_epoch`
  std::string group_text;                // kOffered, kFormed: its address; kBroken, kLost: why
  std::uint64_t group_epoch = 0;
};

struct Leave {
  SessionId session;
  std::uint64_t nonce = 0;
  std::string reason;
};

// ---- worker <-> shard ----------------------------------------------------------------------------------------------

// Payload: the block's gradient. A leaf carries the slot's mean gradient, a node above it the sum of its leaves'
// values. samples = 0: no payload, the node contributes nothing.
struct Push {
  Generation generation;
  Incarnation incarnation;  // of the shard it was meant for
  SessionId session;
  Step step;  // async: sequence number of the slot, 1 for its first push
  Node node;
  BlockIndex block = 0;
  std::uint64_t samples = 0;
  std::uint64_t payload_hash = 0;       // XXH3-64
  Encoding encoding = Encoding::kFp32;  // the job's own for leaves, kFp32 for sums and for statistics
  std::vector<HyperParameters> hyper;   // of every group, where the worker owns them; else empty
  float loss_scale = 1.0F;              // of the payload; sync: the step's, else the slot's own
};

// Payload: an array of a block that a worker gives. The first weights, where a block has tensors of kGiven; or, in
// allreduce, all arrays of the version that `step` makes. Answered with Assigned when all arrays of the block are
// there; the first one counts.
struct Assign {
  Generation generation;
  Incarnation incarnation;
  SessionId session;
  BlockIndex block = 0;
  std::uint64_t payload_hash = 0;
  Step step = {};           // 0 for first weights
  std::uint32_t array = 0;  // 0: weights, then the optimizer's states
};

struct Assigned {
  Generation generation;
  Incarnation incarnation;
  ShardIndex shard = 0;
  std::vector<BlockIndex> blocks;  // whose arrays this shard has
  Step step;                       // of the Assigns; of those that are over, all blocks count as given
};

struct EndSlot {
  Generation generation;
  Incarnation incarnation;
  SessionId session;
  Step step;
  SlotReport report;
  std::string program_state;  // after the step; sync. Empty: this slot has none
};

struct CoverageQuery {  // what is held of `step`? answered with Staged{full = true}
  Generation generation;
  Incarnation incarnation;
  SessionId session;
  Step step;
};

struct Staged {
  Generation generation;
  Incarnation incarnation;
  ShardIndex shard = 0;
  Step step;
  struct Entry {
    BlockIndex block = 0;
    Node node;
    bool operator==(const Entry&) const = default;
  };
  std::vector<Entry> held;            // nodes held (or already applied); cumulative for those named
  std::vector<SlotIndex> ended;       // slots whose EndSlot is held
  std::vector<std::uint64_t> clocks;  // modes without global steps, in answer to a CoverageQuery: per slot, the newest
                                      // sequence number that all blocks of this shard have
  bool full = false;                  // `held`, `ended` and `clocks` are everything there is
  bool passed = false;                // the step is over on this shard: nothing of it is missing
  std::uint32_t credit = 0;           // pushes are welcome for the first `credit` blocks of this shard in push order
};

struct Pull {
  Generation generation;
  Incarnation incarnation;
  SessionId session;
  Version version;  // async: the least clock asked for
  std::vector<BlockIndex> blocks;
  std::uint32_t array = 0;  // 0: weights, then the optimizer's states
  // Of weights; states come as fp32. kFp32 or the job's own. Blocks of statistics come as fp32 whatever is asked.
  Encoding encoding = Encoding::kFp32;
  // sync: blocks that are welcome while the version is not published yet, as tentative weights, a few at a time. Each
  // comes once; what was lost is pulled when the version is published.
  std::vector<BlockIndex> ahead;
  bool follows = false;  // answered with Published when the version is, before its blocks
};

// What a pull of this version waited for. Tentative weights of this attempt are the version's own where the action is
// kApply; all others that came before are void.
struct Published {
  Generation generation;
  Incarnation incarnation;
  Version version;
  std::uint32_t attempt = 0;
  StepAction action = StepAction::kApply;  // kSkip: the version has the blocks of the one before
  bool stop = false;                       // this and the others as in Weights
  float loss_scale = 1.0F;
  std::uint64_t updates = 0;
  std::string program_state;  // from the shard that has block 0
  // allreduce: of the step that begins with this version.
  float learning_rate = 0.0F;
  bool keep = false, held = true;
  Generation made_in;  // the generation in which the step before was committed; 0: none was in this history
};

// Payload: an array of the block: its weights, or one of the optimizer's states.
struct Weights {
  Generation generation;
  Incarnation incarnation;
  Version version;  // sync: of all blocks; async: of this block
  Version asked;    // what the pull asked for
  std::uint32_t attempt = 0;
  bool tentative = false;  // prepared, and void unless Published says otherwise; what is the version's is there
  BlockIndex block = 0;
  bool stop = false;  // this is the last version
  float loss_scale = 1.0F;
  std::uint64_t payload_hash = 0;
  std::uint32_t array = 0;
  Encoding encoding = Encoding::kFp32;
  std::uint64_t updates = 0;  // sync: that the version has had; async: that this block has
  std::string program_state;  // of the version; with the weights of block 0 alone
};

// ---- shard <-> shard -----------------------------------------------------------------------------------------------

struct Fetch {  // a block of a snapshot's part that the other has
  SnapshotId snapshot;
  ShardIndex part = 0;
  BlockIndex block = 0;
};

// Payload: one array of the block: its weights, or one of the optimizer's states.
struct Fetched {
  SnapshotId snapshot;
  ShardIndex part = 0;
  BlockIndex block = 0;
  std::uint32_t array = 0;  // 0: weights, then states
  std::uint64_t updates = 0;
  std::vector<std::uint64_t> last;  // per slot, newest sequence number applied
  std::uint64_t payload_hash = 0;
  std::string failure;  // not empty: why there is no payload
};

// ---- anybody -> anybody --------------------------------------------------------------------------------------------

struct Error {
  Code code = Code::kInvalid;
  Generation generation;
  Incarnation incarnation;
  Step step;  // the sender's present step
  Step last;  // kInvalid for a gap: the last sequence number applied
  BlockIndex block = 0;
  std::string message;
};

using Header = std::variant<Ping, Reset, Commit, Redo, Rates, Pin, SnapshotsKept, Shutdown, Prepared, Committed, Hello,
                            ResetDone, ResetBad, Progress, SnapshotDone, Join, View, Beat, Leave, Push, EndSlot,
                            CoverageQuery, Staged, Pull, Weights, Assign, Assigned, Published, Fetch, Fetched, Error>;

struct Message {
  Header header;
  Slice payload;
};

struct Envelope {
  PeerId to;
  Message message;
};

}  // namespace capstan
