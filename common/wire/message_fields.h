// Fields(visitor, message): the fields of every message, each listed once.
//
// Kind:   templates.
// Limits: a text has at most kTextBytesMax bytes and a list kListEntriesMax entries, unless its line says otherwise.
// Why:    the codec and the generators of the tests are visitors of these lists, so they cannot drift apart. A field is
//         written in its struct, in schema/wire.capnp and here.
//
// A visitor is called with (member, name) or (member, name, form), or with (member) for a part that has no struct of
// its own in the schema. Texts, lists and structs are sent in this order; it must not change, as it decides the bytes.
#pragma once

#include <capstan/status.h>

#include "common/wire/field.h"
#include "common/wire/messages.h"
#include "common/wire/part_fields.h"
#include "common/wire/staged_runs.h"
#include "common/wire/team_fields.h"

namespace capstan {

constexpr JobPhase LastOf(JobPhase) { return JobPhase::kFailed; }
constexpr GroupState LastOf(GroupState) { return GroupState::kLost; }
constexpr Code LastOf(Code) { return Code::kRefused; }

// ---- parts of one message ------------------------------------------------------------------------------------------

template <class Visitor, MaybeConst<ShardAddress> M>
void Fields(Visitor& v, M& m) {
  v(m.shard, CAPSTAN_FIELD(Shard));
  v(m.incarnation, CAPSTAN_FIELD(Incarnation));
  v(m.endpoint, CAPSTAN_FIELD(Endpoint));
}

template <class Visitor, MaybeConst<GroupMember> M>
void Fields(Visitor& v, M& m) {
  v(m.worker, CAPSTAN_FIELD(Worker));
  v(m.address, CAPSTAN_FIELD(Address), form::Bytes{kGroupTextBytesMax});
}

template <class Visitor, MaybeConst<LiveSession> M>
void Fields(Visitor& v, M& m) {
  v(m.session, CAPSTAN_FIELD(Session));
  v(m.worker, CAPSTAN_FIELD(Worker));
  v(m.slots, CAPSTAN_FIELD(Slots), form::List{kSlotsMax});
  v(m.founder, CAPSTAN_FIELD(Founder));
}

template <class Visitor, MaybeConst<PartSource> M>
void Fields(Visitor& v, M& m) {
  v(m.digest, CAPSTAN_FIELD(Digest));
  v(m.endpoint, CAPSTAN_FIELD(Endpoint));
}

template <class Visitor, MaybeConst<PrepareReport> M>
void Fields(Visitor& v, M& m) {
  v(m.segment_squares, CAPSTAN_FIELD(SegmentSquares));
  v(m.block_samples, CAPSTAN_FIELD(BlockSamples));
  v(m.slots, CAPSTAN_FIELD(Slots));
  v(m.hyper_hash, CAPSTAN_FIELD(HyperHash));
  v(m.learning_rate, CAPSTAN_FIELD(LearningRate));
  v(m.weight_squares, CAPSTAN_FIELD(WeightSquares), form::OptionalList{});
  v(m.direction_squares, CAPSTAN_FIELD(DirectionSquares), form::OptionalList{});
  v(m.program_state, CAPSTAN_FIELD(ProgramState), form::Bytes{kProgramStateBytesMax});
  v(m.program_slot, CAPSTAN_FIELD(ProgramSlot));
}

template <class Visitor, MaybeConst<StagedRun> M>
void Fields(Visitor& v, M& m) {
  v(m.block, CAPSTAN_FIELD(Block));
  v(m.node);
  v(m.stride, CAPSTAN_FIELD(Stride));
  v(m.more, CAPSTAN_FIELD(More));
}

// ---- coordinator -> shard ------------------------------------------------------------------------------------------

template <class Visitor, MaybeConst<Ping> M>
void Fields(Visitor& v, M& m) {
  v(m.term, CAPSTAN_FIELD(Term));
  v(m.generation, CAPSTAN_FIELD(Generation));
}

template <class Visitor, MaybeConst<Reset> M>
void Fields(Visitor& v, M& m) {
  v(m.term, CAPSTAN_FIELD(Term));
  v(m.generation, CAPSTAN_FIELD(Generation));
  v(m.incarnation, CAPSTAN_FIELD(Incarnation));
  v(m.job, CAPSTAN_FIELD(Job));
  v(m.snapshot, CAPSTAN_FIELD(Snapshot));
  v(m.parameters, CAPSTAN_FIELD(Parameters));
  v(m.slot_count, CAPSTAN_FIELD(SlotCount));
  v(m.timeline, CAPSTAN_FIELD(Timeline));
  v(m.catalog, CAPSTAN_FIELD(Catalog), form::List{kTensorsMax});
  v(m.sources, CAPSTAN_FIELD(Sources));
  v(m.fetch_key, CAPSTAN_FIELD(FetchKey));
}

template <class Visitor, MaybeConst<Commit> M>
void Fields(Visitor& v, M& m) {
  v(m.term, CAPSTAN_FIELD(Term));
  v(m.generation, CAPSTAN_FIELD(Generation));
  v(m.step, CAPSTAN_FIELD(Step));
  v(m.attempt, CAPSTAN_FIELD(Attempt));
  v(m.action, CAPSTAN_FIELD(Action));
  v(m.next, CAPSTAN_FIELD(Next));
}

template <class Visitor, MaybeConst<Redo> M>
void Fields(Visitor& v, M& m) {
  v(m.term, CAPSTAN_FIELD(Term));
  v(m.generation, CAPSTAN_FIELD(Generation));
  v(m.step, CAPSTAN_FIELD(Step));
  v(m.attempt, CAPSTAN_FIELD(Attempt));
  v(m.clip, CAPSTAN_FIELD(Clip));
  v(m.trust_ratios, CAPSTAN_FIELD(TrustRatios), form::OptionalList{});
  v(m.clip_value, CAPSTAN_FIELD(ClipValue));
}

template <class Visitor, MaybeConst<ClockUpdate> M>
void Fields(Visitor& v, M& m) {
  v(m.term, CAPSTAN_FIELD(Term));
  v(m.generation, CAPSTAN_FIELD(Generation));
  v(m.clock, CAPSTAN_FIELD(Clock));
  v(m.parameters, CAPSTAN_FIELD(Parameters));
}

template <class Visitor, MaybeConst<Pin> M>
void Fields(Visitor& v, M& m) {
  v(m.term, CAPSTAN_FIELD(Term));
  v(m.generation, CAPSTAN_FIELD(Generation));
  v(m.version, CAPSTAN_FIELD(Version));
}

template <class Visitor, MaybeConst<RetainedSnapshots> M>
void Fields(Visitor& v, M& m) {
  v(m.term, CAPSTAN_FIELD(Term));
  v(m.generation, CAPSTAN_FIELD(Generation));
  v(m.ids, CAPSTAN_FIELD(Ids));
  v(m.settled, CAPSTAN_FIELD(Settled));
}

template <class Visitor, MaybeConst<Shutdown> M>
void Fields(Visitor& v, M& m) {
  v(m.term, CAPSTAN_FIELD(Term));
  v(m.generation, CAPSTAN_FIELD(Generation));
}

template <class Visitor, MaybeConst<LiveSessions> M>
void Fields(Visitor& v, M& m) {
  v(m.term, CAPSTAN_FIELD(Term));
  v(m.sequence, CAPSTAN_FIELD(Sequence));
  v(m.base, CAPSTAN_FIELD(Base));
  v(m.sessions, CAPSTAN_FIELD(Sessions), form::List{kWorkersMax});
  v(m.ended, CAPSTAN_FIELD(Ended), form::List{kWorkersMax});
}

// ---- shard -> coordinator ------------------------------------------------------------------------------------------

template <class Visitor, MaybeConst<Prepared> M>
void Fields(Visitor& v, M& m) {
  v(m.shard, CAPSTAN_FIELD(Shard));
  v(m.incarnation, CAPSTAN_FIELD(Incarnation));
  v(m.generation, CAPSTAN_FIELD(Generation));
  v(m.step, CAPSTAN_FIELD(Step));
  v(m.attempt, CAPSTAN_FIELD(Attempt));
  v(m.report, CAPSTAN_FIELD(Report));
}

template <class Visitor, MaybeConst<Committed> M>
void Fields(Visitor& v, M& m) {
  v(m.shard, CAPSTAN_FIELD(Shard));
  v(m.incarnation, CAPSTAN_FIELD(Incarnation));
  v(m.generation, CAPSTAN_FIELD(Generation));
  v(m.step, CAPSTAN_FIELD(Step));
}

template <class Visitor, MaybeConst<Hello> M>
void Fields(Visitor& v, M& m) {
  v(m.job, CAPSTAN_FIELD(Job));
  v(m.shard, CAPSTAN_FIELD(Shard));
  v(m.incarnation, CAPSTAN_FIELD(Incarnation));
  v(m.term, CAPSTAN_FIELD(Term));
  v(m.generation, CAPSTAN_FIELD(Generation));
  v(m.serving, CAPSTAN_FIELD(Serving));
  v(m.version, CAPSTAN_FIELD(Version));
  v(m.last_commit, CAPSTAN_FIELD(LastCommit));
  v(m.prepared, CAPSTAN_FIELD(Prepared));
  v(m.config_hash, CAPSTAN_FIELD(ConfigHash));
  v(m.endpoint, CAPSTAN_FIELD(Endpoint));
  v(m.parts, CAPSTAN_FIELD(Parts));
  v(m.newest_retained, CAPSTAN_FIELD(NewestRetained));
  v(m.metrics, CAPSTAN_FIELD(Metrics));
  v(m.sessions, CAPSTAN_FIELD(Sessions));
  v(m.busy_us, CAPSTAN_FIELD(BusyUs));
}

template <class Visitor, MaybeConst<ResetDone> M>
void Fields(Visitor& v, M& m) {
  v(m.shard, CAPSTAN_FIELD(Shard));
  v(m.incarnation, CAPSTAN_FIELD(Incarnation));
  v(m.generation, CAPSTAN_FIELD(Generation));
}

template <class Visitor, MaybeConst<ResetBad> M>
void Fields(Visitor& v, M& m) {
  v(m.shard, CAPSTAN_FIELD(Shard));
  v(m.incarnation, CAPSTAN_FIELD(Incarnation));
  v(m.generation, CAPSTAN_FIELD(Generation));
  v(m.reason, CAPSTAN_FIELD(Reason), form::UserText{});
}

template <class Visitor, MaybeConst<Progress> M>
void Fields(Visitor& v, M& m) {
  v(m.shard, CAPSTAN_FIELD(Shard));
  v(m.incarnation, CAPSTAN_FIELD(Incarnation));
  v(m.generation, CAPSTAN_FIELD(Generation));
  v(m.clocks, CAPSTAN_FIELD(Clocks));
  v(m.reports, CAPSTAN_FIELD(Reports));
}

template <class Visitor, MaybeConst<SnapshotDone> M>
void Fields(Visitor& v, M& m) {
  v(m.shard, CAPSTAN_FIELD(Shard));
  v(m.incarnation, CAPSTAN_FIELD(Incarnation));
  v(m.term, CAPSTAN_FIELD(Term));
  v(m.generation, CAPSTAN_FIELD(Generation));
  v(m.version, CAPSTAN_FIELD(Version));
  v(m.parameters, CAPSTAN_FIELD(Parameters));
  v(m.digest, CAPSTAN_FIELD(Digest));
  v(m.bytes, CAPSTAN_FIELD(Bytes));
  v(m.failure, CAPSTAN_FIELD(Failure), form::UserText{});
}

template <class Visitor, MaybeConst<Disagreement> M>
void Fields(Visitor& v, M& m) {
  v(m.shard, CAPSTAN_FIELD(Shard));
  v(m.incarnation, CAPSTAN_FIELD(Incarnation));
  v(m.generation, CAPSTAN_FIELD(Generation));
  v(m.step, CAPSTAN_FIELD(Step));
  v(m.first, CAPSTAN_FIELD(First));
  v(m.second, CAPSTAN_FIELD(Second));
  v(m.what, CAPSTAN_FIELD(What), form::UserText{});
}

// ---- worker <-> coordinator ----------------------------------------------------------------------------------------

template <class Visitor, MaybeConst<Join> M>
void Fields(Visitor& v, M& m) {
  v(m.job, CAPSTAN_FIELD(Job));
  v(m.worker, CAPSTAN_FIELD(Worker));
  v(m.nonce, CAPSTAN_FIELD(Nonce));
  v(m.numeric_class, CAPSTAN_FIELD(NumericClass));
  v(m.numeric_fingerprint, CAPSTAN_FIELD(NumericFingerprint));
  v(m.data_fingerprint, CAPSTAN_FIELD(DataFingerprint));
  v(m.catalog, CAPSTAN_FIELD(Catalog), form::List{kTensorsMax});
  v(m.rank, CAPSTAN_FIELD(Rank));
  v(m.ranks, CAPSTAN_FIELD(Ranks));
  v(m.machine, CAPSTAN_FIELD(Machine));
  v(m.metrics, CAPSTAN_FIELD(Metrics));
}

template <class Visitor, MaybeConst<View> M>
void Fields(Visitor& v, M& m) {
  v(m.job, CAPSTAN_FIELD(Job));
  v(m.term, CAPSTAN_FIELD(Term));
  v(m.generation, CAPSTAN_FIELD(Generation));
  v(m.sequence, CAPSTAN_FIELD(Sequence));
  v(m.session, CAPSTAN_FIELD(Session));
  v(m.phase, CAPSTAN_FIELD(Phase));
  v(m.slot_count, CAPSTAN_FIELD(SlotCount));
  v(m.slots, CAPSTAN_FIELD(Slots));
  v(m.shards, CAPSTAN_FIELD(Shards));
  v(m.step, CAPSTAN_FIELD(Step));
  v(m.message, CAPSTAN_FIELD(Message), form::UserText{});
  v(m.job_file, CAPSTAN_FIELD(JobFile), form::Text{kJobFileBytesMax});
  v(m.founder, CAPSTAN_FIELD(Founder));
  v(m.catalog, CAPSTAN_FIELD(Catalog), form::List{kTensorsMax});
  v(m.barrier, CAPSTAN_FIELD(Barrier));
  v(m.readable, CAPSTAN_FIELD(Readable));
  v(m.group_epoch, CAPSTAN_FIELD(GroupEpoch));
  v(m.notice, CAPSTAN_FIELD(Notice), form::UserText{});
  v(m.group, CAPSTAN_FIELD(Group), form::OptionalList{});
  v(m.group_rank, CAPSTAN_FIELD(GroupRank));
  v(m.clock_ms, CAPSTAN_FIELD(ClockMs));
}

template <class Visitor, MaybeConst<TimeSpent> M>
void Fields(Visitor& v, M& m) {
  v(m.all_us, CAPSTAN_FIELD(AllUs));
  v(m.input_us, CAPSTAN_FIELD(InputUs));
  v(m.exchange_us, CAPSTAN_FIELD(ExchangeUs));
  v(m.commit_us, CAPSTAN_FIELD(CommitUs));
}

template <class Visitor, MaybeConst<Heartbeat> M>
void Fields(Visitor& v, M& m) {
  v(m.session, CAPSTAN_FIELD(Session));
  v(m.nonce, CAPSTAN_FIELD(Nonce));
  v(m.generation, CAPSTAN_FIELD(Generation));
  v(m.step, CAPSTAN_FIELD(Step));
  v(m.computing, CAPSTAN_FIELD(Computing));
  v(m.view_sequence, CAPSTAN_FIELD(ViewSequence));
  v(m.missing, CAPSTAN_FIELD(Missing));
  v(m.barrier, CAPSTAN_FIELD(Barrier));
  v(m.group, CAPSTAN_FIELD(Group));
  v(m.group_text, CAPSTAN_FIELD(GroupText), form::Bytes{kGroupTextBytesMax});
  v(m.group_epoch, CAPSTAN_FIELD(GroupEpoch));
  v(m.spent);
  v(m.has_version, CAPSTAN_FIELD(HasVersion));
  v(m.loads, CAPSTAN_FIELD(Loads));
}

template <class Visitor, MaybeConst<Leave> M>
void Fields(Visitor& v, M& m) {
  v(m.session, CAPSTAN_FIELD(Session));
  v(m.nonce, CAPSTAN_FIELD(Nonce));
  v(m.reason, CAPSTAN_FIELD(Reason), form::UserText{});
}

// ---- worker <-> shard ----------------------------------------------------------------------------------------------

template <class Visitor, MaybeConst<Push> M>
void Fields(Visitor& v, M& m) {
  v(m.generation, CAPSTAN_FIELD(Generation));
  v(m.incarnation, CAPSTAN_FIELD(Incarnation));
  v(m.session, CAPSTAN_FIELD(Session));
  v(m.step, CAPSTAN_FIELD(Step));
  v(m.node);
  v(m.block, CAPSTAN_FIELD(Block));
  v(m.encoding, CAPSTAN_FIELD(Encoding));
  v(m.loss_scale, CAPSTAN_FIELD(LossScale));
  v(m.samples, CAPSTAN_FIELD(Samples));
  v(m.payload_hash, CAPSTAN_FIELD(PayloadHash));
  v(m.hyper, CAPSTAN_FIELD(Hyper), form::OptionalList{kGroupsMax});
}

template <class Visitor, MaybeConst<EndSlot> M>
void Fields(Visitor& v, M& m) {
  v(m.generation, CAPSTAN_FIELD(Generation));
  v(m.incarnation, CAPSTAN_FIELD(Incarnation));
  v(m.session, CAPSTAN_FIELD(Session));
  v(m.step, CAPSTAN_FIELD(Step));
  v(m.report, CAPSTAN_FIELD(Report));
  v(m.program_state, CAPSTAN_FIELD(ProgramState), form::Bytes{kProgramStateBytesMax});
}

template <class Visitor, MaybeConst<CoverageQuery> M>
void Fields(Visitor& v, M& m) {
  v(m.generation, CAPSTAN_FIELD(Generation));
  v(m.incarnation, CAPSTAN_FIELD(Incarnation));
  v(m.session, CAPSTAN_FIELD(Session));
  v(m.step, CAPSTAN_FIELD(Step));
  v(m.question, CAPSTAN_FIELD(Question));
  v(m.nodes, CAPSTAN_FIELD(Nodes), form::Nodes{});
}

template <class Visitor, MaybeConst<Staged> M>
void Fields(Visitor& v, M& m) {
  v(m.generation, CAPSTAN_FIELD(Generation));
  v(m.incarnation, CAPSTAN_FIELD(Incarnation));
  v(m.shard, CAPSTAN_FIELD(Shard));
  v(m.credit, CAPSTAN_FIELD(Credit));
  v(m.step, CAPSTAN_FIELD(Step));
  v(m.nodes, CAPSTAN_FIELD(Nodes), form::Nodes{});
  v(m.ended, CAPSTAN_FIELD(Ended));
  v(m.clocks, CAPSTAN_FIELD(Clocks));
  v(m.full, CAPSTAN_FIELD(Full));
  v(m.passed, CAPSTAN_FIELD(Passed));
  v(m.present, CAPSTAN_FIELD(Present));
  v(m.answers, CAPSTAN_FIELD(Answers));
  v(m.missing, CAPSTAN_FIELD(Missing), form::Nodes{});
  v(m.pull_waits, CAPSTAN_FIELD(PullWaits));
}

template <class Visitor, MaybeConst<Pull> M>
void Fields(Visitor& v, M& m) {
  v(m.generation, CAPSTAN_FIELD(Generation));
  v(m.incarnation, CAPSTAN_FIELD(Incarnation));
  v(m.session, CAPSTAN_FIELD(Session));
  v(m.version, CAPSTAN_FIELD(Version));
  v(m.blocks, CAPSTAN_FIELD(Blocks));
  v(m.array, CAPSTAN_FIELD(Array));
  v(m.encoding, CAPSTAN_FIELD(Encoding));
  v(m.speculative, CAPSTAN_FIELD(Speculative));
  v(m.follows, CAPSTAN_FIELD(Follows));
}

template <class Visitor, MaybeConst<Weights> M>
void Fields(Visitor& v, M& m) {
  v(m.generation, CAPSTAN_FIELD(Generation));
  v(m.incarnation, CAPSTAN_FIELD(Incarnation));
  v(m.version, CAPSTAN_FIELD(Version));
  v(m.asked, CAPSTAN_FIELD(Asked));
  v(m.attempt, CAPSTAN_FIELD(Attempt));
  v(m.block, CAPSTAN_FIELD(Block));
  v(m.speculative, CAPSTAN_FIELD(Speculative));
  v(m.stop, CAPSTAN_FIELD(Stop));
  v(m.loss_scale, CAPSTAN_FIELD(LossScale));
  v(m.payload_hash, CAPSTAN_FIELD(PayloadHash));
  v(m.array, CAPSTAN_FIELD(Array));
  v(m.encoding, CAPSTAN_FIELD(Encoding));
  v(m.updates, CAPSTAN_FIELD(Updates));
  v(m.program_state, CAPSTAN_FIELD(ProgramState), form::Bytes{kProgramStateBytesMax});
  v(m.gradient_norm, CAPSTAN_FIELD(GradientNorm));
  v(m.skipped, CAPSTAN_FIELD(Skipped));
}

template <class Visitor, MaybeConst<UploadBlock> M>
void Fields(Visitor& v, M& m) {
  v(m.generation, CAPSTAN_FIELD(Generation));
  v(m.incarnation, CAPSTAN_FIELD(Incarnation));
  v(m.session, CAPSTAN_FIELD(Session));
  v(m.block, CAPSTAN_FIELD(Block));
  v(m.payload_hash, CAPSTAN_FIELD(PayloadHash));
  v(m.step, CAPSTAN_FIELD(Step));
  v(m.array, CAPSTAN_FIELD(Array));
  v(m.program_state, CAPSTAN_FIELD(ProgramState), form::Bytes{kProgramStateBytesMax});
}

template <class Visitor, MaybeConst<UploadAck> M>
void Fields(Visitor& v, M& m) {
  v(m.generation, CAPSTAN_FIELD(Generation));
  v(m.incarnation, CAPSTAN_FIELD(Incarnation));
  v(m.shard, CAPSTAN_FIELD(Shard));
  v(m.blocks, CAPSTAN_FIELD(Blocks));
  v(m.step, CAPSTAN_FIELD(Step));
}

template <class Visitor, MaybeConst<Published> M>
void Fields(Visitor& v, M& m) {
  v(m.generation, CAPSTAN_FIELD(Generation));
  v(m.incarnation, CAPSTAN_FIELD(Incarnation));
  v(m.version, CAPSTAN_FIELD(Version));
  v(m.attempt, CAPSTAN_FIELD(Attempt));
  v(m.action, CAPSTAN_FIELD(Action));
  v(m.stop, CAPSTAN_FIELD(Stop));
  v(m.loss_scale, CAPSTAN_FIELD(LossScale));
  v(m.updates, CAPSTAN_FIELD(Updates));
  v(m.program_state, CAPSTAN_FIELD(ProgramState), form::Bytes{kProgramStateBytesMax});
  v(m.learning_rate, CAPSTAN_FIELD(LearningRate));
  v(m.upload_next, CAPSTAN_FIELD(UploadNext));
  v(m.on_shards, CAPSTAN_FIELD(NotOnShards), form::Negated{});
  v(m.made_in, CAPSTAN_FIELD(MadeIn));
  v(m.gradient_norm, CAPSTAN_FIELD(GradientNorm));
}

// ---- shard <-> shard -----------------------------------------------------------------------------------------------

template <class Visitor, MaybeConst<Fetch> M>
void Fields(Visitor& v, M& m) {
  v(m.snapshot, CAPSTAN_FIELD(Snapshot));
  v(m.part, CAPSTAN_FIELD(Part));
  v(m.block, CAPSTAN_FIELD(Block));
  v(m.key, CAPSTAN_FIELD(Key));
}

template <class Visitor, MaybeConst<Fetched> M>
void Fields(Visitor& v, M& m) {
  v(m.snapshot, CAPSTAN_FIELD(Snapshot));
  v(m.part, CAPSTAN_FIELD(Part));
  v(m.block, CAPSTAN_FIELD(Block));
  v(m.array, CAPSTAN_FIELD(Array));
  v(m.updates, CAPSTAN_FIELD(Updates));
  v(m.last, CAPSTAN_FIELD(Last));
  v(m.payload_hash, CAPSTAN_FIELD(PayloadHash));
  v(m.arrays, CAPSTAN_FIELD(Arrays));
  v(m.failure, CAPSTAN_FIELD(Failure), form::UserText{});
}

// ---- worker -> worker ----------------------------------------------------------------------------------------------

template <class Visitor, MaybeConst<MeshPiece> M>
void Fields(Visitor& v, M& m) {
  v(m.tag, CAPSTAN_FIELD(Tag));
  v(m.size, CAPSTAN_FIELD(Size));
  v(m.offset, CAPSTAN_FIELD(Offset));
}

template <class Visitor, MaybeConst<MeshGrant> M>
void Fields(Visitor& v, M& m) {
  v(m.tag, CAPSTAN_FIELD(Tag));
  v(m.size, CAPSTAN_FIELD(Size));
  v(m.received, CAPSTAN_FIELD(Received));
}

template <class Visitor, MaybeConst<MeshControl> M>
void Fields(Visitor& v, M& m) {
  v(m.control, CAPSTAN_FIELD(Control), form::Bytes{MeshControl::kBytesMax});
}

// ---- any -> any ----------------------------------------------------------------------------------------------------

template <class Visitor, MaybeConst<Error> M>
void Fields(Visitor& v, M& m) {
  v(m.code, CAPSTAN_FIELD(Code));
  v(m.generation, CAPSTAN_FIELD(Generation));
  v(m.incarnation, CAPSTAN_FIELD(Incarnation));
  v(m.step, CAPSTAN_FIELD(Step));
  v(m.last, CAPSTAN_FIELD(Last));
  v(m.block, CAPSTAN_FIELD(Block));
  v(m.message, CAPSTAN_FIELD(Message), form::UserText{});
}

// ---- the schema's Header -------------------------------------------------------------------------------------------

// Returns the message's name in the schema's Header.
inline auto HeaderField(const Ping*) { return CAPSTAN_FIELD(Ping); }
inline auto HeaderField(const Reset*) { return CAPSTAN_FIELD(Reset); }
inline auto HeaderField(const Commit*) { return CAPSTAN_FIELD(Commit); }
inline auto HeaderField(const Redo*) { return CAPSTAN_FIELD(Redo); }
inline auto HeaderField(const ClockUpdate*) { return CAPSTAN_FIELD(ClockUpdate); }
inline auto HeaderField(const Pin*) { return CAPSTAN_FIELD(Pin); }
inline auto HeaderField(const RetainedSnapshots*) { return CAPSTAN_FIELD(RetainedSnapshots); }
inline auto HeaderField(const Shutdown*) { return CAPSTAN_FIELD(Shutdown); }
inline auto HeaderField(const Prepared*) { return CAPSTAN_FIELD(Prepared); }
inline auto HeaderField(const Committed*) { return CAPSTAN_FIELD(Committed); }
inline auto HeaderField(const Hello*) { return CAPSTAN_FIELD(Hello); }
inline auto HeaderField(const ResetDone*) { return CAPSTAN_FIELD(ResetDone); }
inline auto HeaderField(const ResetBad*) { return CAPSTAN_FIELD(ResetBad); }
inline auto HeaderField(const Progress*) { return CAPSTAN_FIELD(Progress); }
inline auto HeaderField(const SnapshotDone*) { return CAPSTAN_FIELD(SnapshotDone); }
inline auto HeaderField(const Join*) { return CAPSTAN_FIELD(Join); }
inline auto HeaderField(const View*) { return CAPSTAN_FIELD(View); }
inline auto HeaderField(const Heartbeat*) { return CAPSTAN_FIELD(Heartbeat); }
inline auto HeaderField(const Leave*) { return CAPSTAN_FIELD(Leave); }
inline auto HeaderField(const Push*) { return CAPSTAN_FIELD(Push); }
inline auto HeaderField(const EndSlot*) { return CAPSTAN_FIELD(EndSlot); }
inline auto HeaderField(const CoverageQuery*) { return CAPSTAN_FIELD(CoverageQuery); }
inline auto HeaderField(const Staged*) { return CAPSTAN_FIELD(Staged); }
inline auto HeaderField(const Pull*) { return CAPSTAN_FIELD(Pull); }
inline auto HeaderField(const Weights*) { return CAPSTAN_FIELD(Weights); }
inline auto HeaderField(const UploadBlock*) { return CAPSTAN_FIELD(UploadBlock); }
inline auto HeaderField(const UploadAck*) { return CAPSTAN_FIELD(UploadAck); }
inline auto HeaderField(const Published*) { return CAPSTAN_FIELD(Published); }
inline auto HeaderField(const Fetch*) { return CAPSTAN_FIELD(Fetch); }
inline auto HeaderField(const Fetched*) { return CAPSTAN_FIELD(Fetched); }
inline auto HeaderField(const MeshPiece*) { return CAPSTAN_FIELD(MeshPiece); }
inline auto HeaderField(const MeshGrant*) { return CAPSTAN_FIELD(MeshGrant); }
inline auto HeaderField(const MeshControl*) { return CAPSTAN_FIELD(MeshControl); }
inline auto HeaderField(const TeamAsk*) { return CAPSTAN_FIELD(TeamAsk); }
inline auto HeaderField(const TeamGive*) { return CAPSTAN_FIELD(TeamGive); }
inline auto HeaderField(const TeamState*) { return CAPSTAN_FIELD(TeamState); }
inline auto HeaderField(const TeamPiece*) { return CAPSTAN_FIELD(TeamPiece); }
inline auto HeaderField(const Error*) { return CAPSTAN_FIELD(Error); }
inline auto HeaderField(const LiveSessions*) { return CAPSTAN_FIELD(LiveSessions); }
inline auto HeaderField(const Disagreement*) { return CAPSTAN_FIELD(Disagreement); }

}  // namespace capstan
