# The header of every message on the wire: one flat segment, never packed. It has a frame of its own, or shares one with
# other small messages (common/wire/coalesced_frame.h). A payload (a gradient, weights) follows it. The fields follow the
# structs in common/wire/messages/, which explain their meaning.
#
# Raise kProtocolVersion in common/wire/wire_codec.h with a change that an older build would misread.
@0xd1852e9d802aacc0;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("capstan::wire");

struct Header {
  magic @0 :UInt32;
  version @1 :UInt16;
  union {
    ping @2 :Ping;
    reset @3 :Reset;
    commit @4 :Commit;
    redo @5 :Redo;
    clockUpdate @6 :ClockUpdate;
    shutdown @7 :Shutdown;
    prepared @8 :Prepared;
    committed @9 :Committed;
    hello @10 :Hello;
    resetDone @11 :ResetDone;
    resetBad @12 :ResetBad;
    progress @13 :Progress;
    join @14 :Join;
    view @15 :View;
    heartbeat @16 :Heartbeat;
    leave @17 :Leave;
    push @18 :Push;
    endSlot @19 :EndSlot;
    coverageQuery @20 :CoverageQuery;
    staged @21 :Staged;
    pull @22 :Pull;
    weights @23 :Weights;
    error @24 :Error;
    pin @25 :Pin;
    retainedSnapshots @26 :RetainedSnapshots;
    snapshotDone @27 :SnapshotDone;
    fetch @28 :Fetch;
    fetched @29 :Fetched;
    uploadBlock @30 :UploadBlock;
    uploadAck @31 :UploadAck;
    published @32 :Published;
    liveSessions @33 :LiveSessions;
    disagreement @34 :Disagreement;
    meshPiece @35 :MeshPiece;
    meshGrant @36 :MeshGrant;
    meshControl @37 :MeshControl;
    unused38 @38 :Void;
    unused39 @39 :Void;
    teamAsk @40 :TeamAsk;
    teamGive @41 :TeamGive;
    teamState @42 :TeamState;
    teamPiece @43 :TeamPiece;
  }
}

# ---- parts ----------------------------------------------------------------------------------------------------------

struct JobId {
  high @0 :UInt64;
  low @1 :UInt64;
}

struct StepParameters {
  updates @0 :UInt64;
  learningRate @1 :Float32;
  lossScale @2 :Float32;
  goodSteps @3 :UInt32;
  snapshot @4 :Bool;
  stop @5 :Bool;
  programState @6 :Data;
  uploadNext @7 :Bool;
  notOnShards @8 :Bool;
  gradientNorm @9 :Float64;
}

struct SnapshotId {
  generation @0 :UInt64;
  version @1 :UInt64;
}

struct SnapshotPart {
  id @0 :SnapshotId;
  part @1 :UInt32;
  digest @2 :UInt64;
}

enum StepAction {
  apply @0;
  skip @1;
}

enum InitKind {
  zeros @0;
  ones @1;
  normal @2;
  uniform @3;
  fromWorker @4;
}

struct TensorSpec {
  name @0 :Text;
  shape @1 :List(Int64);
  initKind @2 :InitKind;
  decay @3 :Bool;
  initScale @4 :Float32;
  group @5 :UInt32;
  statistic @6 :Bool;
}

struct HyperParameters {
  learningRate @0 :Float64;
  momentum @1 :Float64;
  beta1 @2 :Float64;
  beta2 @3 :Float64;
  eps @4 :Float64;
  weightDecay @5 :Float64;
  nesterov @6 :Bool;
  dampening @7 :Float64;
  alpha @8 :Float64;
  lrDecay @9 :Float64;
  initialAccumulatorValue @10 :Float64;
  momentumDecay @11 :Float64;
  maximize @12 :Bool;
  decoupledWeightDecay @13 :Bool;
}

struct Metric {
  name @0 :Text;
  sum @1 :Float64;
  weight @2 :Float64;
}

struct SlotReport {
  slot @0 :UInt32;
  samples @1 :UInt64;
  lossSum @2 :Float64;
  predictions @3 :UInt64;
  validationLossSum @4 :Float64;
  validationPredictions @5 :UInt64;
  validationCorrect @6 :UInt64;
  metrics @7 :List(Metric);
  gradientSquares @8 :Float64;
  replicaHash @9 :UInt64;
  clipNorm @10 :Float64;
  clipValue @11 :Float64;
}

struct PrepareReport {
  segmentSquares @0 :List(Float64);
  slots @1 :List(SlotReport);
  blockSamples @2 :List(UInt64);
  hyperHash @3 :UInt64;
  learningRate @4 :Float64;
  weightSquares @5 :List(Float64);
  directionSquares @6 :List(Float64);
  programState @7 :Data;
  programSlot @8 :UInt32;
}

struct ShardAddress {
  shard @0 :UInt32;
  incarnation @1 :UInt64;
  endpoint @2 :Text;
}

# ---- coordinator -> shard -------------------------------------------------------------------------------------------

struct Ping {
  term @0 :UInt64;
  generation @1 :UInt64;
}

struct Reset {
  term @0 :UInt64;
  generation @1 :UInt64;
  incarnation @2 :UInt64;
  job @3 :JobId;
  snapshot @4 :SnapshotId;
  parameters @5 :StepParameters;
  slotCount @6 :UInt32;
  catalog @7 :List(TensorSpec);
  sources @8 :List(Source);
  timeline @9 :UInt64;
  fetchKey @10 :UInt64;

  struct Source {
    digest @0 :UInt64;
    endpoint @1 :Text;
  }
}

struct Pin {
  term @0 :UInt64;
  generation @1 :UInt64;
  version @2 :UInt64;
}

struct RetainedSnapshots {
  term @0 :UInt64;
  generation @1 :UInt64;
  ids @2 :List(SnapshotId);
  settled @3 :SnapshotId;
}

struct Commit {
  term @0 :UInt64;
  generation @1 :UInt64;
  step @2 :UInt64;
  attempt @3 :UInt32;
  action @4 :StepAction;
  next @5 :StepParameters;
}

struct Redo {
  term @0 :UInt64;
  generation @1 :UInt64;
  step @2 :UInt64;
  attempt @3 :UInt32;
  clip @4 :Float32;
  trustRatios @5 :List(Float32);
  clipValue @6 :Float32;
}

struct ClockUpdate {
  term @0 :UInt64;
  generation @1 :UInt64;
  clock @2 :UInt64;
  parameters @3 :StepParameters;
}

struct Shutdown {
  term @0 :UInt64;
  generation @1 :UInt64;
}

struct SlotRange {
  begin @0 :UInt32;
  end @1 :UInt32;
}

struct LiveSession {
  session @0 :UInt64;
  worker @1 :Text;
  slots @2 :List(SlotRange);
  founder @3 :Bool;
}

struct LiveSessions {
  term @0 :UInt64;
  sequence @1 :UInt64;
  base @2 :UInt64;
  sessions @3 :List(LiveSession);
  ended @4 :List(UInt64);
}

# ---- shard -> coordinator -------------------------------------------------------------------------------------------

struct Prepared {
  shard @0 :UInt32;
  incarnation @1 :UInt64;
  generation @2 :UInt64;
  step @3 :UInt64;
  attempt @4 :UInt32;
  report @5 :PrepareReport;
}

struct Committed {
  shard @0 :UInt32;
  incarnation @1 :UInt64;
  generation @2 :UInt64;
  step @3 :UInt64;
}

struct Hello {
  job @0 :JobId;
  shard @1 :UInt32;
  incarnation @2 :UInt64;
  term @3 :UInt64;
  generation @4 :UInt64;
  serving @5 :Bool;
  version @6 :UInt64;
  lastCommit @7 :Commit;  # null if there is none
  prepared @8 :Prepared;  # null if there is none
  configHash @9 :UInt64;
  endpoint @10 :Text;
  parts @11 :List(SnapshotPart);
  newestRetained @12 :SnapshotId;
  metrics @13 :Text;
  sessions @14 :UInt64;
  busyUs @15 :UInt64;
}

struct SnapshotDone {
  shard @0 :UInt32;
  incarnation @1 :UInt64;
  generation @2 :UInt64;
  version @3 :UInt64;
  parameters @4 :StepParameters;
  digest @5 :UInt64;
  bytes @6 :UInt64;
  failure @7 :Text;
  term @8 :UInt64;
}

struct ResetDone {
  shard @0 :UInt32;
  incarnation @1 :UInt64;
  generation @2 :UInt64;
}

struct ResetBad {
  shard @0 :UInt32;
  incarnation @1 :UInt64;
  generation @2 :UInt64;
  reason @3 :Text;
}

struct Progress {
  shard @0 :UInt32;
  incarnation @1 :UInt64;
  generation @2 :UInt64;
  clocks @3 :List(UInt64);
  reports @4 :List(Entry);

  struct Entry {
    sequence @0 :UInt64;
    report @1 :SlotReport;
  }
}

struct Disagreement {
  shard @0 :UInt32;
  incarnation @1 :UInt64;
  generation @2 :UInt64;
  step @3 :UInt64;
  first @4 :UInt64;
  second @5 :UInt64;
  what @6 :Text;
}

# ---- worker <-> coordinator -----------------------------------------------------------------------------------------

struct Join {
  job @0 :JobId;
  worker @1 :Text;
  nonce @2 :UInt64;
  numericClass @3 :Text;
  numericFingerprint @4 :UInt64;
  dataFingerprint @5 :UInt64;
  catalog @6 :List(TensorSpec);
  rank @7 :UInt32;
  ranks @8 :UInt32;
  machine @9 :Text;
  metrics @10 :Text;
}

enum JobPhase {
  gathering @0;
  running @1;
  done @2;
  failed @3;
}

struct GroupMember {
  unused @0 :UInt64;
  worker @1 :Text;
  address @2 :Data;
}

enum GroupState {
  none @0;
  offered @1;
  formed @2;
  broken @3;
  lost @4;
}

struct View {
  job @0 :JobId;
  term @1 :UInt64;
  generation @2 :UInt64;
  sequence @3 :UInt64;
  session @4 :UInt64;
  phase @5 :JobPhase;
  slotCount @6 :UInt32;
  slots @7 :List(UInt32);
  shards @8 :List(ShardAddress);
  step @9 :UInt64;
  message @10 :Text;
  jobFile @11 :Text;
  founder @12 :Bool;
  catalog @13 :List(TensorSpec);
  barrier @14 :UInt64;
  group @15 :List(GroupMember);
  readable @16 :UInt64;
  groupEpoch @17 :UInt64;
  notice @18 :Text;
  groupRank @19 :UInt32;
  clockMs @20 :UInt64;
}

struct Heartbeat {
  session @0 :UInt64;
  nonce @1 :UInt64;
  generation @2 :UInt64;
  step @3 :UInt64;
  computing @4 :Bool;
  viewSequence @5 :UInt64;
  missing @6 :List(UInt32);
  barrier @7 :UInt64;
  group @8 :GroupState;
  groupText @9 :Data;
  groupEpoch @10 :UInt64;
  allUs @11 :UInt64;
  inputUs @12 :UInt64;
  exchangeUs @13 :UInt64;
  commitUs @14 :UInt64;
  hasVersion @15 :Bool;
  loads @16 :Bool;
}

struct Leave {
  session @0 :UInt64;
  nonce @1 :UInt64;
  reason @2 :Text;
}

# ---- worker <-> shard -----------------------------------------------------------------------------------------------

enum Encoding {
  fp32 @0;
  bf16 @1;
  fp16 @2;
}

struct Push {
  generation @0 :UInt64;
  incarnation @1 :UInt64;
  session @2 :UInt64;
  step @3 :UInt64;
  nodeBegin @4 :UInt32;
  nodeEnd @5 :UInt32;
  block @6 :UInt32;
  encoding @7 :Encoding;
  samples @8 :UInt64;
  payloadHash @9 :UInt64;
  hyper @10 :List(HyperParameters);
  lossScale @11 :Float32;
}

struct UploadBlock {
  generation @0 :UInt64;
  incarnation @1 :UInt64;
  session @2 :UInt64;
  block @3 :UInt32;
  payloadHash @4 :UInt64;
  step @5 :UInt64;
  array @6 :UInt32;
  programState @7 :Data;
}

struct UploadAck {
  generation @0 :UInt64;
  incarnation @1 :UInt64;
  shard @2 :UInt32;
  blocks @3 :List(UInt32);
  step @4 :UInt64;
}

struct EndSlot {
  generation @0 :UInt64;
  incarnation @1 :UInt64;
  session @2 :UInt64;
  step @3 :UInt64;
  report @4 :SlotReport;
  programState @5 :Data;
}

struct CoverageQuery {
  generation @0 :UInt64;
  incarnation @1 :UInt64;
  session @2 :UInt64;
  step @3 :UInt64;
  question @4 :UInt64;
  nodes @5 :List(Staged.Entry);
}

struct Staged {
  generation @0 :UInt64;
  incarnation @1 :UInt64;
  shard @2 :UInt32;
  credit @3 :UInt32;
  step @4 :UInt64;
  nodes @5 :List(Entry);
  ended @6 :List(UInt32);
  clocks @7 :List(UInt64);
  full @8 :Bool;
  passed @9 :Bool;
  present @10 :UInt64;
  answers @11 :UInt64;
  missing @12 :List(Entry);
  pullWaits @13 :Bool;

  struct Entry {  # a node of more + 1 blocks: block, block + stride, block + 2 * stride, ...
    block @0 :UInt32;
    nodeBegin @1 :UInt32;
    nodeEnd @2 :UInt32;
    stride @3 :UInt32;
    more @4 :UInt32;
  }
}

struct Pull {
  generation @0 :UInt64;
  incarnation @1 :UInt64;
  session @2 :UInt64;
  version @3 :UInt64;
  blocks @4 :List(UInt32);
  array @5 :UInt32;
  encoding @6 :Encoding;
  speculative @7 :List(UInt32);
  follows @8 :Bool;
}

struct Published {
  generation @0 :UInt64;
  incarnation @1 :UInt64;
  version @2 :UInt64;
  attempt @3 :UInt32;
  action @4 :StepAction;
  stop @5 :Bool;
  lossScale @6 :Float32;
  updates @7 :UInt64;
  programState @8 :Data;
  learningRate @9 :Float32;
  uploadNext @10 :Bool;
  notOnShards @11 :Bool;
  madeIn @12 :UInt64;
  gradientNorm @13 :Float64;
}

struct Weights {
  generation @0 :UInt64;
  incarnation @1 :UInt64;
  version @2 :UInt64;
  attempt @3 :UInt32;
  block @4 :UInt32;
  speculative @5 :Bool;
  stop @6 :Bool;
  lossScale @7 :Float32;
  payloadHash @8 :UInt64;
  asked @9 :UInt64;
  array @10 :UInt32;
  encoding @11 :Encoding;
  updates @12 :UInt64;
  programState @13 :Data;
  gradientNorm @14 :Float64;
  skipped @15 :Bool;
}

# ---- shard <-> shard ------------------------------------------------------------------------------------------------

struct Fetch {
  snapshot @0 :SnapshotId;
  part @1 :UInt32;
  block @2 :UInt32;
  key @3 :UInt64;
}

struct Fetched {
  snapshot @0 :SnapshotId;
  part @1 :UInt32;
  block @2 :UInt32;
  array @3 :UInt32;
  updates @4 :UInt64;
  last @5 :List(UInt64);
  payloadHash @6 :UInt64;
  failure @7 :Text;
  arrays @8 :UInt32;
}

# ---- worker -> worker -----------------------------------------------------------------------------------------------

struct MeshPiece {
  tag @0 :UInt64;
  size @1 :UInt64;
  offset @2 :UInt64;
}

struct MeshGrant {
  tag @0 :UInt64;
  size @1 :UInt64;
  received @2 :UInt64;
}

struct MeshControl {
  control @0 :Data;
}

# ---- a member of a team <-> coordinator -----------------------------------------------------------------------------

struct TeamAsk {
  session @0 :UInt64;
  nonce @1 :UInt64;
  team @2 :UInt64;
  forming @3 :UInt64;
  rank @4 :UInt32;
  ranks @5 :UInt32;
  former @6 :UInt32;
  call @7 :UInt64;
  what @8 :Text;
  bytes @9 :UInt64;
  received @10 :UInt32;
  again @11 :Bool;
  question @12 :UInt64;
}

struct TeamGive {
  session @0 :UInt64;
  team @1 :UInt64;
  call @2 :UInt64;
  piece @3 :UInt32;
  payloadHash @4 :UInt64;
}

struct TeamState {
  team @0 :UInt64;
  forming @1 :UInt64;
  rank @2 :UInt32;
  ranks @3 :UInt32;
  call @4 :UInt64;
  held @5 :UInt32;
  complete @6 :UInt32;
  floor @7 :UInt32;
  wanted @8 :Bool;
  answers @9 :UInt64;
  failure @10 :Code;
  message @11 :Text;
  waiting @12 :UInt32;
}

struct TeamPiece {
  team @0 :UInt64;
  call @1 :UInt64;
  rank @2 :UInt32;
  piece @3 :UInt32;
  bytes @4 :UInt64;
  floor @5 :UInt32;
  payloadHash @6 :UInt64;
}

# ---- any -> any -----------------------------------------------------------------------------------------------------

enum Code {
  ok @0;
  invalid @1;
  busy @2;
  stale @3;
  timeout @4;
  unreachable @5;
  corrupt @6;
  unsupported @7;
  refused @8;
}

struct Error {
  code @0 :Code;
  generation @1 :UInt64;
  incarnation @2 :UInt64;
  step @3 :UInt64;
  last @4 :UInt64;
  block @5 :UInt32;
  message @6 :Text;
}
