#include "common/wire/wire_codec.h"

#include <capnp/message.h>
#include <kj/exception.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/utf8.h"
#include "common/wire/messages.h"
#include "common/wire/staged_runs.h"
#include "schema/wire.capnp.h"

namespace capstan {
namespace {

constexpr std::size_t kWordBytes = sizeof(capnp::word);
constexpr std::size_t kScratchWords = 256;  // headers up to this size are built and read on the stack
constexpr int kNestingMax = 16;

// Remembers the first fault of a header and lets the faulty parts pass as empty.
class Faults {
 public:
  const std::string& first() const { return first_; }

  unsigned Count(std::size_t count, std::size_t max, const char* what) {
    if (count <= max) return static_cast<unsigned>(count);
    Note(std::to_string(count) + " " + what + ", at most " + std::to_string(max) + " are allowed");
    return 0;
  }
  std::string_view Text(std::string_view text, const char* what, std::size_t max = kTextBytesMax) {
    if (text.size() > max) {
      Note(std::string(what) + " has " + std::to_string(text.size()) + " bytes, at most " + std::to_string(max) +
           " are allowed");
      return {};
    }
    if (!IsUtf8(text)) {
      Note(std::string(what) + " is not UTF-8 text");
      return {};
    }
    return text;
  }
  std::string_view ProgramState(std::string_view state) {
    if (state.size() <= kProgramStateBytesMax) return state;
    Note("a program's state has " + std::to_string(state.size()) + " bytes, at most " +
         std::to_string(kProgramStateBytesMax) + " are allowed");
    return {};
  }
  std::string_view GroupText(std::string_view text) {
    if (text.size() <= kGroupTextBytesMax) return text;
    Note("a group's address has " + std::to_string(text.size()) + " bytes, at most " +
         std::to_string(kGroupTextBytesMax) + " are allowed");
    return {};
  }
  template <class Out, class In>
  Out Enum(In value, Out last, const char* what) {
    if (static_cast<unsigned>(value) <= static_cast<unsigned>(last)) return static_cast<Out>(value);
    Note(std::string(what) + " has the unknown value " + std::to_string(static_cast<unsigned>(value)));
    return Out{};
  }
  void Note(std::string what) {
    if (first_.empty()) first_ = std::move(what);
  }

 private:
  std::string first_;
};

// ---- parts, out ----------------------------------------------------------------------------------------------------

capnp::Text::Reader ToText(std::string_view text) { return {text.empty() ? "" : text.data(), text.size()}; }

capnp::Data::Reader ToData(std::string_view bytes) {
  return {reinterpret_cast<const capnp::byte*>(bytes.data()), bytes.size()};
}

void WriteJob(const JobId& job, wire::JobId::Builder out) {
  out.setHigh(job.high);
  out.setLow(job.low);
}

// Writes no field for an empty state, so that it takes no room.
template <class Builder>
void WriteProgramState(std::string_view state, Builder out, Faults& faults) {
  state = faults.ProgramState(state);
  if (!state.empty()) out.setProgramState(ToData(state));
}

void WriteParameters(const StepParameters& parameters, wire::StepParameters::Builder out, Faults& faults) {
  out.setUpdates(parameters.updates);
  out.setLearningRate(parameters.learning_rate);
  out.setLossScale(parameters.loss_scale);
  out.setGoodSteps(parameters.good_steps);
  out.setSnapshot(parameters.snapshot);
  out.setStop(parameters.stop);
  WriteProgramState(parameters.program_state, out, faults);
  out.setKeep(parameters.keep);
  out.setUnheld(!parameters.held);
}

void WriteHyperParameters(const HyperParameters& hyper, wire::HyperParameters::Builder out) {
  out.setLearningRate(hyper.learning_rate);
  out.setMomentum(hyper.momentum);
  out.setBeta1(hyper.beta1);
  out.setBeta2(hyper.beta2);
  out.setEps(hyper.eps);
  out.setWeightDecay(hyper.weight_decay);
  out.setNesterov(hyper.nesterov);
}

void WriteSnapshotId(const SnapshotId& id, wire::SnapshotId::Builder out) {
  out.setGeneration(id.generation.value);
  out.setVersion(id.version.value);
}

void WriteSlotReport(const SlotReport& report, wire::SlotReport::Builder out, Faults& faults) {
  out.setSlot(report.slot);
  out.setSamples(report.samples);
  out.setLossSum(report.loss_sum);
  out.setPredictions(report.predictions);
  out.setValidationLossSum(report.validation_loss_sum);
  out.setValidationPredictions(report.validation_predictions);
  out.setValidationCorrect(report.validation_correct);
  out.setGradientSquares(report.gradient_squares);
  out.setReplicaHash(report.replica_hash);
  if (report.metrics.empty()) return;
  auto metrics = out.initMetrics(faults.Count(report.metrics.size(), kListEntriesMax, "metrics"));
  for (unsigned i = 0; i < metrics.size(); ++i) {
    metrics[i].setName(ToText(faults.Text(report.metrics[i].name, "a metric's name")));
    metrics[i].setSum(report.metrics[i].sum);
    metrics[i].setWeight(report.metrics[i].weight);
  }
}

void WriteCommit(const Commit& commit, wire::Commit::Builder out, Faults& faults) {
  out.setTerm(commit.term.value);
  out.setGeneration(commit.generation.value);
  out.setStep(commit.step.value);
  out.setAttempt(commit.attempt);
  out.setAction(static_cast<wire::StepAction>(commit.action));
  WriteParameters(commit.next, out.initNext(), faults);
}

template <class ListBuilder, class T>
void WriteNumbers(const std::vector<T>& numbers, ListBuilder out) {
  for (unsigned i = 0; i < out.size(); ++i) out.set(i, numbers[i]);
}

// `init(n)` makes the list with n entries.
template <class Init>
void WriteNodes(const std::vector<StagedNode>& nodes, const char* what, Faults& faults, const Init& init) {
  faults.Count(nodes.size(), kStagedNodesMax, what);
  const std::vector<StagedRun> runs = RunsOf(nodes);
  auto out = init(faults.Count(runs.size(), kStagedRunsMax, what));
  for (unsigned i = 0; i < out.size(); ++i) {
    out[i].setBlock(runs[i].block);
    out[i].setNodeBegin(runs[i].node.begin);
    out[i].setNodeEnd(runs[i].node.end);
    out[i].setStride(runs[i].stride);
    out[i].setMore(runs[i].count - 1);
  }
}

void WritePrepared(const Prepared& prepared, wire::Prepared::Builder out, Faults& faults) {
  out.setShard(prepared.shard);
  out.setIncarnation(prepared.incarnation.value);
  out.setGeneration(prepared.generation.value);
  out.setStep(prepared.step.value);
  out.setAttempt(prepared.attempt);
  const PrepareReport& report = prepared.report;
  auto to = out.initReport();
  WriteNumbers(report.segment_squares,
               to.initSegmentSquares(faults.Count(report.segment_squares.size(), kListEntriesMax, "segments")));
  WriteNumbers(report.block_samples,
               to.initBlockSamples(faults.Count(report.block_samples.size(), kListEntriesMax, "blocks")));
  auto slots = to.initSlots(faults.Count(report.slots.size(), kListEntriesMax, "slot reports"));
  for (unsigned i = 0; i < slots.size(); ++i) WriteSlotReport(report.slots[i], slots[i], faults);
  to.setHyperHash(report.hyper_hash);
  to.setLearningRate(report.learning_rate);
  if (!report.weight_squares.empty()) {
    WriteNumbers(report.weight_squares,
                 to.initWeightSquares(faults.Count(report.weight_squares.size(), kListEntriesMax, "segments")));
  }
  if (!report.direction_squares.empty()) {
    WriteNumbers(report.direction_squares,
                 to.initDirectionSquares(faults.Count(report.direction_squares.size(), kListEntriesMax, "segments")));
  }
  WriteProgramState(report.program_state, to, faults);
  to.setProgramSlot(report.program_slot);
}

template <class Builder>
void WriteCatalog(const std::vector<TensorSpec>& catalog, Builder message, Faults& faults) {
  auto out = message.initCatalog(faults.Count(catalog.size(), kTensorsMax, "tensors"));
  for (unsigned i = 0; i < out.size(); ++i) {
    const TensorSpec& tensor = catalog[i];
    auto to = out[i];
    to.setName(ToText(faults.Text(tensor.name, "a tensor's name")));
    WriteNumbers(tensor.shape, to.initShape(faults.Count(tensor.shape.size(), kDimensionsMax, "dimensions")));
    to.setInitKind(static_cast<wire::InitKind>(tensor.init.kind));
    to.setInitScale(tensor.init.scale);
    to.setDecay(tensor.decay);
    to.setGroup(tensor.group);
    to.setStatistic(tensor.kind == TensorKind::kStatistic);
  }
}

// ---- messages, out -------------------------------------------------------------------------------------------------

struct HeaderWriter {
  wire::Header::Builder root;
  Faults& faults;

  void operator()(const Ping& m) {
    auto out = root.initPing();
    out.setTerm(m.term.value);
    out.setGeneration(m.generation.value);
  }
  void operator()(const Reset& m) {
    auto out = root.initReset();
    out.setTerm(m.term.value);
    out.setGeneration(m.generation.value);
    out.setIncarnation(m.incarnation.value);
    WriteJob(m.job, out.initJob());
    WriteSnapshotId(m.snapshot, out.initSnapshot());
    WriteParameters(m.parameters, out.initParameters(), faults);
    out.setSlotCount(m.slot_count);
    out.setHistory(m.history.value);
    WriteCatalog(m.catalog, out, faults);
    auto sources = out.initSources(faults.Count(m.sources.size(), kListEntriesMax, "sources"));
    for (unsigned i = 0; i < sources.size(); ++i) {
      sources[i].setDigest(m.sources[i].digest);
      sources[i].setEndpoint(ToText(faults.Text(m.sources[i].endpoint, "an endpoint")));
    }
  }
  void operator()(const Pin& m) {
    auto out = root.initPin();
    out.setTerm(m.term.value);
    out.setGeneration(m.generation.value);
    out.setVersion(m.version.value);
  }
  void operator()(const SnapshotsKept& m) {
    auto out = root.initSnapshotsKept();
    out.setTerm(m.term.value);
    out.setGeneration(m.generation.value);
    auto kept = out.initKept(faults.Count(m.kept.size(), kListEntriesMax, "snapshots"));
    for (unsigned i = 0; i < kept.size(); ++i) WriteSnapshotId(m.kept[i], kept[i]);
    WriteSnapshotId(m.settled, out.initSettled());
  }
  void operator()(const Commit& m) { WriteCommit(m, root.initCommit(), faults); }
  void operator()(const Redo& m) {
    auto out = root.initRedo();
    out.setTerm(m.term.value);
    out.setGeneration(m.generation.value);
    out.setStep(m.step.value);
    out.setAttempt(m.attempt);
    out.setClip(m.clip);
    if (m.trust_ratios.empty()) return;
    WriteNumbers(m.trust_ratios, out.initTrustRatios(faults.Count(m.trust_ratios.size(), kListEntriesMax, "tensors")));
  }
  void operator()(const Rates& m) {
    auto out = root.initRates();
    out.setTerm(m.term.value);
    out.setGeneration(m.generation.value);
    out.setStep(m.step.value);
    WriteParameters(m.parameters, out.initParameters(), faults);
  }
  void operator()(const Shutdown& m) {
    auto out = root.initShutdown();
    out.setTerm(m.term.value);
    out.setGeneration(m.generation.value);
  }
  void operator()(const Prepared& m) { WritePrepared(m, root.initPrepared(), faults); }
  void operator()(const Committed& m) {
    auto out = root.initCommitted();
    out.setShard(m.shard);
    out.setIncarnation(m.incarnation.value);
    out.setGeneration(m.generation.value);
    out.setStep(m.step.value);
  }
  void operator()(const Hello& m) {
    auto out = root.initHello();
    WriteJob(m.job, out.initJob());
    out.setShard(m.shard);
    out.setIncarnation(m.incarnation.value);
    out.setTerm(m.term.value);
    out.setGeneration(m.generation.value);
    out.setServing(m.serving);
    out.setVersion(m.version.value);
    if (m.last_commit) WriteCommit(*m.last_commit, out.initLastCommit(), faults);
    if (m.prepared) WritePrepared(*m.prepared, out.initPrepared(), faults);
    out.setConfigHash(m.config_hash);
    out.setEndpoint(ToText(faults.Text(m.endpoint, "an endpoint")));
    auto parts = out.initParts(faults.Count(m.parts.size(), kListEntriesMax, "snapshot parts"));
    for (unsigned i = 0; i < parts.size(); ++i) {
      WriteSnapshotId(m.parts[i].id, parts[i].initId());
      parts[i].setPart(m.parts[i].part);
      parts[i].setDigest(m.parts[i].digest);
    }
    WriteSnapshotId(m.newest_kept, out.initNewestKept());
    out.setMetrics(ToText(faults.Text(m.metrics, "an address of metrics")));
  }
  void operator()(const SnapshotDone& m) {
    auto out = root.initSnapshotDone();
    out.setShard(m.shard);
    out.setIncarnation(m.incarnation.value);
    out.setTerm(m.term.value);
    out.setGeneration(m.generation.value);
    out.setVersion(m.version.value);
    WriteParameters(m.parameters, out.initParameters(), faults);
    out.setDigest(m.digest);
    out.setBytes(m.bytes);
    out.setFailure(ToText(CleanUtf8(m.failure, kTextBytesMax)));
  }
  void operator()(const Fetch& m) {
    auto out = root.initFetch();
    WriteSnapshotId(m.snapshot, out.initSnapshot());
    out.setPart(m.part);
    out.setBlock(m.block);
  }
  void operator()(const Fetched& m) {
    auto out = root.initFetched();
    WriteSnapshotId(m.snapshot, out.initSnapshot());
    out.setPart(m.part);
    out.setBlock(m.block);
    out.setArray(m.array);
    out.setUpdates(m.updates);
    WriteNumbers(m.last, out.initLast(faults.Count(m.last.size(), kListEntriesMax, "sequence numbers")));
    out.setPayloadHash(m.payload_hash);
    out.setArrays(m.arrays);
    out.setFailure(ToText(CleanUtf8(m.failure, kTextBytesMax)));
  }
  void operator()(const ResetDone& m) {
    auto out = root.initResetDone();
    out.setShard(m.shard);
    out.setIncarnation(m.incarnation.value);
    out.setGeneration(m.generation.value);
  }
  void operator()(const ResetBad& m) {
    auto out = root.initResetBad();
    out.setShard(m.shard);
    out.setIncarnation(m.incarnation.value);
    out.setGeneration(m.generation.value);
    out.setReason(ToText(CleanUtf8(m.reason, kTextBytesMax)));
  }
  void operator()(const Progress& m) {
    auto out = root.initProgress();
    out.setShard(m.shard);
    out.setIncarnation(m.incarnation.value);
    out.setGeneration(m.generation.value);
    WriteNumbers(m.clocks, out.initClocks(faults.Count(m.clocks.size(), kListEntriesMax, "clocks")));
    auto reports = out.initReports(faults.Count(m.reports.size(), kListEntriesMax, "slot reports"));
    for (unsigned i = 0; i < reports.size(); ++i) {
      reports[i].setStep(m.reports[i].step.value);
      WriteSlotReport(m.reports[i].report, reports[i].initReport(), faults);
    }
  }
  void operator()(const Join& m) {
    auto out = root.initJoin();
    WriteJob(m.job, out.initJob());
    out.setWorker(ToText(faults.Text(m.worker, "a worker's name")));
    out.setNonce(m.nonce);
    out.setNumericClass(ToText(faults.Text(m.numeric_class, "a numeric class")));
    out.setNumericFingerprint(m.numeric_fingerprint);
    out.setDataFingerprint(m.data_fingerprint);
    WriteCatalog(m.catalog, out, faults);
    out.setRank(m.rank);
    out.setRanks(m.ranks);
    out.setMachine(ToText(faults.Text(m.machine, "a machine's name")));
    out.setMetrics(ToText(faults.Text(m.metrics, "an address of metrics")));
  }
  void operator()(const View& m) {
    auto out = root.initView();
    WriteJob(m.job, out.initJob());
    out.setTerm(m.term.value);
    out.setGeneration(m.generation.value);
    out.setSequence(m.sequence);
    out.setSession(m.session.value);
    out.setPhase(static_cast<wire::JobPhase>(m.phase));
    out.setSlotCount(m.slot_count);
    WriteNumbers(m.slots, out.initSlots(faults.Count(m.slots.size(), kListEntriesMax, "slots")));
    auto shards = out.initShards(faults.Count(m.shards.size(), kListEntriesMax, "shards"));
    for (unsigned i = 0; i < shards.size(); ++i) {
      shards[i].setShard(m.shards[i].shard);
      shards[i].setIncarnation(m.shards[i].incarnation.value);
      shards[i].setEndpoint(ToText(faults.Text(m.shards[i].endpoint, "an endpoint")));
    }
    out.setStep(m.step.value);
    out.setMessage(ToText(CleanUtf8(m.message, kTextBytesMax)));
    out.setJobFile(ToText(faults.Text(m.job_file, "the job file", kJobFileBytesMax)));
    out.setFounder(m.founder);
    WriteCatalog(m.catalog, out, faults);
    out.setBarrier(m.barrier);
    out.setReadable(m.readable.value);
    out.setGroupEpoch(m.group_epoch);
    out.setNotice(ToText(CleanUtf8(m.notice, kTextBytesMax)));
    if (m.group.empty()) return;
    auto group = out.initGroup(faults.Count(m.group.size(), kListEntriesMax, "members of a group"));
    for (unsigned i = 0; i < group.size(); ++i) {
      group[i].setSession(m.group[i].session.value);
      group[i].setWorker(ToText(faults.Text(m.group[i].worker, "a worker's name")));
      const std::string_view address = faults.GroupText(m.group[i].address);
      if (!address.empty()) group[i].setAddress(ToData(address));
    }
  }
  void operator()(const Beat& m) {
    auto out = root.initBeat();
    out.setSession(m.session.value);
    out.setNonce(m.nonce);
    out.setGeneration(m.generation.value);
    out.setStep(m.step.value);
    out.setComputing(m.computing);
    out.setViewSequence(m.view_sequence);
    WriteNumbers(m.missing, out.initMissing(faults.Count(m.missing.size(), kListEntriesMax, "missing shards")));
    out.setBarrier(m.barrier);
    out.setGroup(static_cast<wire::GroupState>(m.group));
    if (const std::string_view text = faults.GroupText(m.group_text); !text.empty()) out.setGroupText(ToData(text));
    out.setGroupEpoch(m.group_epoch);
  }
  void operator()(const Leave& m) {
    auto out = root.initLeave();
    out.setSession(m.session.value);
    out.setNonce(m.nonce);
    out.setReason(ToText(CleanUtf8(m.reason, kTextBytesMax)));
  }
  void operator()(const Push& m) {
    auto out = root.initPush();
    out.setGeneration(m.generation.value);
    out.setIncarnation(m.incarnation.value);
    out.setSession(m.session.value);
    out.setStep(m.step.value);
    out.setNodeBegin(m.node.begin);
    out.setNodeEnd(m.node.end);
    out.setBlock(m.block);
    out.setEncoding(static_cast<wire::Encoding>(m.encoding));
    out.setLossScale(m.loss_scale);
    out.setSamples(m.samples);
    out.setPayloadHash(m.payload_hash);
    if (m.hyper.empty()) return;
    auto hyper = out.initHyper(faults.Count(m.hyper.size(), kGroupsMax, "groups"));
    for (unsigned i = 0; i < hyper.size(); ++i) WriteHyperParameters(m.hyper[i], hyper[i]);
  }
  void operator()(const Assign& m) {
    auto out = root.initAssign();
    out.setGeneration(m.generation.value);
    out.setIncarnation(m.incarnation.value);
    out.setSession(m.session.value);
    out.setBlock(m.block);
    out.setPayloadHash(m.payload_hash);
    out.setStep(m.step.value);
    out.setArray(m.array);
  }
  void operator()(const Assigned& m) {
    auto out = root.initAssigned();
    out.setGeneration(m.generation.value);
    out.setIncarnation(m.incarnation.value);
    out.setShard(m.shard);
    WriteNumbers(m.blocks, out.initBlocks(faults.Count(m.blocks.size(), kListEntriesMax, "blocks")));
    out.setStep(m.step.value);
  }
  void operator()(const EndSlot& m) {
    auto out = root.initEndSlot();
    out.setGeneration(m.generation.value);
    out.setIncarnation(m.incarnation.value);
    out.setSession(m.session.value);
    out.setStep(m.step.value);
    WriteSlotReport(m.report, out.initReport(), faults);
    WriteProgramState(m.program_state, out, faults);
  }
  void operator()(const CoverageQuery& m) {
    auto out = root.initCoverageQuery();
    out.setGeneration(m.generation.value);
    out.setIncarnation(m.incarnation.value);
    out.setSession(m.session.value);
    out.setStep(m.step.value);
    out.setQuestion(m.question);
    WriteNodes(m.nodes, "nodes asked for", faults, [&](unsigned count) { return out.initNodes(count); });
  }
  void operator()(const Staged& m) {
    auto out = root.initStaged();
    out.setGeneration(m.generation.value);
    out.setIncarnation(m.incarnation.value);
    out.setShard(m.shard);
    out.setCredit(m.credit);
    out.setStep(m.step.value);
    WriteNodes(m.held, "held nodes", faults, [&](unsigned count) { return out.initHeld(count); });
    WriteNumbers(m.ended, out.initEnded(faults.Count(m.ended.size(), kListEntriesMax, "ended slots")));
    WriteNumbers(m.clocks, out.initClocks(faults.Count(m.clocks.size(), kListEntriesMax, "clocks")));
    out.setFull(m.full);
    out.setPassed(m.passed);
    out.setPresent(m.present.value);
    out.setAnswers(m.answers);
    WriteNodes(m.missing, "missing nodes", faults, [&](unsigned count) { return out.initMissing(count); });
    out.setPullWaits(m.pull_waits);
  }
  void operator()(const Pull& m) {
    auto out = root.initPull();
    out.setGeneration(m.generation.value);
    out.setIncarnation(m.incarnation.value);
    out.setSession(m.session.value);
    out.setVersion(m.version.value);
    WriteNumbers(m.blocks, out.initBlocks(faults.Count(m.blocks.size(), kListEntriesMax, "blocks")));
    out.setArray(m.array);
    out.setEncoding(static_cast<wire::Encoding>(m.encoding));
    WriteNumbers(m.ahead, out.initAhead(faults.Count(m.ahead.size(), kListEntriesMax, "blocks ahead")));
    out.setFollows(m.follows);
  }
  void operator()(const Published& m) {
    auto out = root.initPublished();
    out.setGeneration(m.generation.value);
    out.setIncarnation(m.incarnation.value);
    out.setVersion(m.version.value);
    out.setAttempt(m.attempt);
    out.setAction(static_cast<wire::StepAction>(m.action));
    out.setStop(m.stop);
    out.setLossScale(m.loss_scale);
    out.setUpdates(m.updates);
    WriteProgramState(m.program_state, out, faults);
    out.setLearningRate(m.learning_rate);
    out.setKeep(m.keep);
    out.setUnheld(!m.held);
    out.setMadeIn(m.made_in.value);
  }
  void operator()(const Weights& m) {
    auto out = root.initWeights();
    out.setGeneration(m.generation.value);
    out.setIncarnation(m.incarnation.value);
    out.setVersion(m.version.value);
    out.setAsked(m.asked.value);
    out.setAttempt(m.attempt);
    out.setBlock(m.block);
    out.setTentative(m.tentative);
    out.setStop(m.stop);
    out.setLossScale(m.loss_scale);
    out.setPayloadHash(m.payload_hash);
    out.setArray(m.array);
    out.setEncoding(static_cast<wire::Encoding>(m.encoding));
    out.setUpdates(m.updates);
    WriteProgramState(m.program_state, out, faults);
  }
  void operator()(const Error& m) {
    auto out = root.initError();
    out.setCode(static_cast<wire::Code>(m.code));
    out.setGeneration(m.generation.value);
    out.setIncarnation(m.incarnation.value);
    out.setStep(m.step.value);
    out.setLast(m.last.value);
    out.setBlock(m.block);
    out.setMessage(ToText(CleanUtf8(m.message, kTextBytesMax)));
  }
};

// ---- parts, in -----------------------------------------------------------------------------------------------------

JobId ReadJob(wire::JobId::Reader in) { return {in.getHigh(), in.getLow()}; }

SnapshotId ReadSnapshotId(wire::SnapshotId::Reader in) { return {{in.getGeneration()}, {in.getVersion()}}; }

HyperParameters ReadHyperParameters(wire::HyperParameters::Reader in) {
  return {in.getLearningRate(), in.getMomentum(),    in.getBeta1(),   in.getBeta2(),
          in.getEps(),          in.getWeightDecay(), in.getNesterov()};
}

struct HeaderReader {
  Faults& faults;

  std::string Text(capnp::Text::Reader text, const char* what, std::size_t max = kTextBytesMax) {
    return std::string(faults.Text({text.begin(), text.size()}, what, max));
  }
  template <class T, class List>
  std::vector<T> Numbers(List list, const char* what, std::size_t max = kListEntriesMax) {
    std::vector<T> numbers(faults.Count(list.size(), max, what));
    for (unsigned i = 0; i < numbers.size(); ++i) numbers[i] = list[i];
    return numbers;
  }
  // A vector of `Entry`, each made by `read` from an element of `list`.
  template <class Entry, class List, class Read>
  std::vector<Entry> Entries(List list, const char* what, const Read& read, std::size_t max = kListEntriesMax) {
    const unsigned count = faults.Count(list.size(), max, what);
    std::vector<Entry> entries;
    entries.reserve(count);
    for (unsigned i = 0; i < count; ++i) entries.push_back(read(list[i]));
    return entries;
  }
  std::vector<TensorSpec> Tensors(capnp::List<wire::TensorSpec>::Reader list) {
    static_assert(kTensorsMax <= kListEntriesMax);
    return Entries<TensorSpec>(list, "tensors", [this](wire::TensorSpec::Reader in) {
      TensorSpec tensor;
      tensor.name = Text(in.getName(), "a tensor's name");
      tensor.shape = Numbers<std::int64_t>(in.getShape(), "dimensions", kDimensionsMax);
      tensor.init = {faults.Enum(in.getInitKind(), InitKind::kGiven, "a tensor's init"), in.getInitScale()};
      tensor.decay = in.getDecay();
      tensor.group = in.getGroup();
      tensor.kind = in.getStatistic() ? TensorKind::kStatistic : TensorKind::kParameter;
      return tensor;
    });
  }

  std::vector<StagedNode> Nodes(capnp::List<wire::Staged::Entry>::Reader list, const char* what) {
    const unsigned count = faults.Count(list.size(), kStagedRunsMax, what);
    std::size_t size = 0;
    for (unsigned i = 0; i < count; ++i) size += std::size_t{list[i].getMore()} + 1;
    std::vector<StagedNode> nodes;
    if (faults.Count(size, kStagedNodesMax, what) == 0) return nodes;
    nodes.reserve(size);
    for (unsigned i = 0; i < count; ++i) {
      const std::uint32_t block = list[i].getBlock(), stride = list[i].getStride(), more = list[i].getMore();
      const Node node{list[i].getNodeBegin(), list[i].getNodeEnd()};
      for (std::uint32_t k = 0; k <= more; ++k) nodes.push_back({block + k * stride, node});
    }
    return nodes;
  }
  std::string ProgramState(capnp::Data::Reader state) {
    return std::string(faults.ProgramState({reinterpret_cast<const char*>(state.begin()), state.size()}));
  }
  std::string GroupText(capnp::Data::Reader text) {
    return std::string(faults.GroupText({reinterpret_cast<const char*>(text.begin()), text.size()}));
  }
  StepParameters Read(wire::StepParameters::Reader in) {
    return {in.getUpdates(),
            in.getLearningRate(),
            in.getLossScale(),
            in.getGoodSteps(),
            in.getSnapshot(),
            in.getStop(),
            ProgramState(in.getProgramState()),
            in.getKeep(),
            !in.getUnheld()};
  }
  SlotReport Read(wire::SlotReport::Reader in) {
    return {
        in.getSlot(),
        in.getSamples(),
        in.getLossSum(),
        in.getPredictions(),
        in.getValidationLossSum(),
        in.getValidationPredictions(),
        in.getValidationCorrect(),
        Entries<Metric>(in.getMetrics(), "metrics",
                        [this](wire::Metric::Reader metric) {
                          return Metric{Text(metric.getName(), "a metric's name"), metric.getSum(), metric.getWeight()};
                        }),
        in.getGradientSquares(),
        in.getReplicaHash()};
  }
  Ping Read(wire::Ping::Reader in) { return {{in.getTerm()}, {in.getGeneration()}}; }
  Reset Read(wire::Reset::Reader in) {
    return {
        {in.getTerm()},
        {in.getGeneration()},
        {in.getIncarnation()},
        ReadJob(in.getJob()),
        ReadSnapshotId(in.getSnapshot()),
        Read(in.getParameters()),
        in.getSlotCount(),
        Tensors(in.getCatalog()),
        Entries<Reset::Source>(in.getSources(), "sources",
                               [this](wire::Reset::Source::Reader source) {
                                 return Reset::Source{source.getDigest(), Text(source.getEndpoint(), "an endpoint")};
                               }),
        {in.getHistory()}};
  }
  Commit Read(wire::Commit::Reader in) {
    return {{in.getTerm()},
            {in.getGeneration()},
            {in.getStep()},
            in.getAttempt(),
            faults.Enum(in.getAction(), StepAction::kSkip, "a commit's action"),
            Read(in.getNext())};
  }
  Redo Read(wire::Redo::Reader in) {
    return {{in.getTerm()},  {in.getGeneration()}, {in.getStep()},
            in.getAttempt(), in.getClip(),         Numbers<float>(in.getTrustRatios(), "tensors")};
  }
  Rates Read(wire::Rates::Reader in) {
    return {{in.getTerm()}, {in.getGeneration()}, {in.getStep()}, Read(in.getParameters())};
  }
  Shutdown Read(wire::Shutdown::Reader in) { return {{in.getTerm()}, {in.getGeneration()}}; }
  Prepared Read(wire::Prepared::Reader in) {
    const auto report = in.getReport();
    return {in.getShard(),
            {in.getIncarnation()},
            {in.getGeneration()},
            {in.getStep()},
            in.getAttempt(),
            {Numbers<double>(report.getSegmentSquares(), "segments"),
             Entries<SlotReport>(report.getSlots(), "slot reports",
                                 [this](wire::SlotReport::Reader slot) { return Read(slot); }),
             Numbers<std::uint64_t>(report.getBlockSamples(), "blocks"), report.getHyperHash(),
             report.getLearningRate(), Numbers<double>(report.getWeightSquares(), "segments"),
             Numbers<double>(report.getDirectionSquares(), "segments"), ProgramState(report.getProgramState()),
             report.getProgramSlot()}};
  }
  Committed Read(wire::Committed::Reader in) {
    return {in.getShard(), {in.getIncarnation()}, {in.getGeneration()}, {in.getStep()}};
  }
  Hello Read(wire::Hello::Reader in) {
    Hello m;
    m.job = ReadJob(in.getJob());
    m.shard = in.getShard();
    m.incarnation = {in.getIncarnation()};
    m.term = {in.getTerm()};
    m.generation = {in.getGeneration()};
    m.serving = in.getServing();
    m.version = {in.getVersion()};
    if (in.hasLastCommit()) m.last_commit = Read(in.getLastCommit());
    if (in.hasPrepared()) m.prepared = Read(in.getPrepared());
    m.config_hash = in.getConfigHash();
    m.endpoint = Text(in.getEndpoint(), "an endpoint");
    m.parts = Entries<SnapshotPart>(in.getParts(), "snapshot parts", [](wire::SnapshotPart::Reader part) {
      return SnapshotPart{ReadSnapshotId(part.getId()), part.getPart(), part.getDigest()};
    });
    m.newest_kept = ReadSnapshotId(in.getNewestKept());
    m.metrics = Text(in.getMetrics(), "an address of metrics");
    return m;
  }
  SnapshotDone Read(wire::SnapshotDone::Reader in) {
    return {in.getShard(),        {in.getIncarnation()}, {in.getTerm()},
            {in.getGeneration()}, {in.getVersion()},     Read(in.getParameters()),
            in.getDigest(),       in.getBytes(),         Text(in.getFailure(), "a failure")};
  }
  Fetch Read(wire::Fetch::Reader in) { return {ReadSnapshotId(in.getSnapshot()), in.getPart(), in.getBlock()}; }
  Fetched Read(wire::Fetched::Reader in) {
    return {ReadSnapshotId(in.getSnapshot()),
            in.getPart(),
            in.getBlock(),
            in.getArray(),
            in.getUpdates(),
            Numbers<std::uint64_t>(in.getLast(), "sequence numbers"),
            in.getPayloadHash(),
            Text(in.getFailure(), "a failure"),
            in.getArrays()};
  }
  Pin Read(wire::Pin::Reader in) { return {{in.getTerm()}, {in.getGeneration()}, {in.getVersion()}}; }
  SnapshotsKept Read(wire::SnapshotsKept::Reader in) {
    return {{in.getTerm()},
            {in.getGeneration()},
            Entries<SnapshotId>(in.getKept(), "snapshots", ReadSnapshotId),
            ReadSnapshotId(in.getSettled())};
  }
  ResetDone Read(wire::ResetDone::Reader in) { return {in.getShard(), {in.getIncarnation()}, {in.getGeneration()}}; }
  ResetBad Read(wire::ResetBad::Reader in) {
    return {in.getShard(), {in.getIncarnation()}, {in.getGeneration()}, Text(in.getReason(), "a reason")};
  }
  Progress Read(wire::Progress::Reader in) {
    return {in.getShard(),
            {in.getIncarnation()},
            {in.getGeneration()},
            Numbers<std::uint64_t>(in.getClocks(), "clocks"),
            Entries<Progress::Entry>(in.getReports(), "slot reports", [this](wire::Progress::Entry::Reader entry) {
              return Progress::Entry{{entry.getStep()}, Read(entry.getReport())};
            })};
  }
  Join Read(wire::Join::Reader in) {
    return {ReadJob(in.getJob()),
            Text(in.getWorker(), "a worker's name"),
            in.getNonce(),
            Text(in.getNumericClass(), "a numeric class"),
            in.getNumericFingerprint(),
            in.getDataFingerprint(),
            Tensors(in.getCatalog()),
            in.getRank(),
            in.getRanks(),
            Text(in.getMachine(), "a machine's name"),
            Text(in.getMetrics(), "an address of metrics")};
  }
  View Read(wire::View::Reader in) {
    View m;
    m.job = ReadJob(in.getJob());
    m.term = {in.getTerm()};
    m.generation = {in.getGeneration()};
    m.sequence = in.getSequence();
    m.session = {in.getSession()};
    m.phase = faults.Enum(in.getPhase(), JobPhase::kFailed, "a view's phase");
    m.slot_count = in.getSlotCount();
    m.slots = Numbers<SlotIndex>(in.getSlots(), "slots");
    m.shards = Entries<ShardAddress>(in.getShards(), "shards", [this](wire::ShardAddress::Reader shard) {
      return ShardAddress{shard.getShard(), {shard.getIncarnation()}, Text(shard.getEndpoint(), "an endpoint")};
    });
    m.step = {in.getStep()};
    m.message = Text(in.getMessage(), "a message");
    m.job_file = Text(in.getJobFile(), "the job file", kJobFileBytesMax);
    m.founder = in.getFounder();
    m.catalog = Tensors(in.getCatalog());
    m.barrier = in.getBarrier();
    m.readable = {in.getReadable()};
    m.group = Entries<GroupMember>(in.getGroup(), "members of a group", [this](wire::GroupMember::Reader member) {
      return GroupMember{
          {member.getSession()}, Text(member.getWorker(), "a worker's name"), GroupText(member.getAddress())};
    });
    m.group_epoch = in.getGroupEpoch();
    m.notice = Text(in.getNotice(), "a notice");
    return m;
  }
  Beat Read(wire::Beat::Reader in) {
    return {{in.getSession()},
            in.getNonce(),
            {in.getGeneration()},
            {in.getStep()},
            in.getComputing(),
            in.getViewSequence(),
            Numbers<ShardIndex>(in.getMissing(), "missing shards"),
            in.getBarrier(),
            faults.Enum(in.getGroup(), GroupState::kLost, "a beat's group"),
            GroupText(in.getGroupText()),
            in.getGroupEpoch()};
  }
  Leave Read(wire::Leave::Reader in) { return {{in.getSession()}, in.getNonce(), Text(in.getReason(), "a reason")}; }
  Push Read(wire::Push::Reader in) {
    return {{in.getGeneration()},
            {in.getIncarnation()},
            {in.getSession()},
            {in.getStep()},
            {in.getNodeBegin(), in.getNodeEnd()},
            in.getBlock(),
            in.getSamples(),
            in.getPayloadHash(),
            faults.Enum(in.getEncoding(), Encoding::kFp16, "a push's encoding"),
            Entries<HyperParameters>(in.getHyper(), "groups", ReadHyperParameters, kGroupsMax),
            in.getLossScale()};
  }
  Assign Read(wire::Assign::Reader in) {
    return {{in.getGeneration()}, {in.getIncarnation()}, {in.getSession()}, in.getBlock(),
            in.getPayloadHash(),  {in.getStep()},        in.getArray()};
  }
  Assigned Read(wire::Assigned::Reader in) {
    return {{in.getGeneration()},
            {in.getIncarnation()},
            in.getShard(),
            Numbers<BlockIndex>(in.getBlocks(), "blocks"),
            {in.getStep()}};
  }
  EndSlot Read(wire::EndSlot::Reader in) {
    return {{in.getGeneration()}, {in.getIncarnation()}, {in.getSession()},
            {in.getStep()},       Read(in.getReport()),  ProgramState(in.getProgramState())};
  }
  CoverageQuery Read(wire::CoverageQuery::Reader in) {
    return {{in.getGeneration()}, {in.getIncarnation()}, {in.getSession()},
            {in.getStep()},       in.getQuestion(),      Nodes(in.getNodes(), "nodes asked for")};
  }
  Staged Read(wire::Staged::Reader in) {
    Staged m;
    m.generation = {in.getGeneration()};
    m.incarnation = {in.getIncarnation()};
    m.shard = in.getShard();
    m.step = {in.getStep()};
    m.held = Nodes(in.getHeld(), "held nodes");
    m.ended = Numbers<SlotIndex>(in.getEnded(), "ended slots");
    m.clocks = Numbers<std::uint64_t>(in.getClocks(), "clocks");
    m.full = in.getFull();
    m.passed = in.getPassed();
    m.present = {in.getPresent()};
    m.answers = in.getAnswers();
    m.missing = Nodes(in.getMissing(), "missing nodes");
    m.pull_waits = in.getPullWaits();
    m.credit = in.getCredit();
    return m;
  }
  Pull Read(wire::Pull::Reader in) {
    return {{in.getGeneration()},
            {in.getIncarnation()},
            {in.getSession()},
            {in.getVersion()},
            Numbers<BlockIndex>(in.getBlocks(), "blocks"),
            in.getArray(),
            faults.Enum(in.getEncoding(), Encoding::kFp16, "a pull's encoding"),
            Numbers<BlockIndex>(in.getAhead(), "blocks ahead"),
            in.getFollows()};
  }
  Published Read(wire::Published::Reader in) {
    return {{in.getGeneration()},
            {in.getIncarnation()},
            {in.getVersion()},
            in.getAttempt(),
            faults.Enum(in.getAction(), StepAction::kSkip, "a published step's action"),
            in.getStop(),
            in.getLossScale(),
            in.getUpdates(),
            ProgramState(in.getProgramState()),
            in.getLearningRate(),
            in.getKeep(),
            !in.getUnheld(),
            {in.getMadeIn()}};
  }
  Weights Read(wire::Weights::Reader in) {
    return {{in.getGeneration()}, {in.getIncarnation()},
            {in.getVersion()},    {in.getAsked()},
            in.getAttempt(),      in.getTentative(),
            in.getBlock(),        in.getStop(),
            in.getLossScale(),    in.getPayloadHash(),
            in.getArray(),        faults.Enum(in.getEncoding(), Encoding::kFp16, "the encoding of weights"),
            in.getUpdates(),      ProgramState(in.getProgramState())};
  }
  Error Read(wire::Error::Reader in) {
    return {faults.Enum(in.getCode(), Code::kRefused, "an error's code"),
            {in.getGeneration()},
            {in.getIncarnation()},
            {in.getStep()},
            {in.getLast()},
            in.getBlock(),
            Text(in.getMessage(), "a message")};
  }

  Header ReadUnion(wire::Header::Reader in) {
    switch (in.which()) {
      case wire::Header::PING: return Read(in.getPing());
      case wire::Header::RESET: return Read(in.getReset());
      case wire::Header::COMMIT: return Read(in.getCommit());
      case wire::Header::REDO: return Read(in.getRedo());
      case wire::Header::RATES: return Read(in.getRates());
      case wire::Header::SHUTDOWN: return Read(in.getShutdown());
      case wire::Header::PREPARED: return Read(in.getPrepared());
      case wire::Header::COMMITTED: return Read(in.getCommitted());
      case wire::Header::HELLO: return Read(in.getHello());
      case wire::Header::RESET_DONE: return Read(in.getResetDone());
      case wire::Header::RESET_BAD: return Read(in.getResetBad());
      case wire::Header::PROGRESS: return Read(in.getProgress());
      case wire::Header::JOIN: return Read(in.getJoin());
      case wire::Header::VIEW: return Read(in.getView());
      case wire::Header::BEAT: return Read(in.getBeat());
      case wire::Header::LEAVE: return Read(in.getLeave());
      case wire::Header::PUSH: return Read(in.getPush());
      case wire::Header::END_SLOT: return Read(in.getEndSlot());
      case wire::Header::COVERAGE_QUERY: return Read(in.getCoverageQuery());
      case wire::Header::STAGED: return Read(in.getStaged());
      case wire::Header::PULL: return Read(in.getPull());
      case wire::Header::PUBLISHED: return Read(in.getPublished());
      case wire::Header::WEIGHTS: return Read(in.getWeights());
      case wire::Header::ASSIGN: return Read(in.getAssign());
      case wire::Header::ASSIGNED: return Read(in.getAssigned());
      case wire::Header::PIN: return Read(in.getPin());
      case wire::Header::SNAPSHOTS_KEPT: return Read(in.getSnapshotsKept());
      case wire::Header::SNAPSHOT_DONE: return Read(in.getSnapshotDone());
      case wire::Header::FETCH: return Read(in.getFetch());
      case wire::Header::FETCHED: return Read(in.getFetched());
      case wire::Header::ERROR: return Read(in.getError());
    }
    faults.Note("it is of the unknown kind " + std::to_string(static_cast<unsigned>(in.which())));
    return Ping{};
  }
};

// ---- framing -------------------------------------------------------------------------------------------------------

// Cap'n Proto's own framing of one segment: {segments - 1, words of the segment}, then the words.
using SegmentTable = std::array<std::uint32_t, 2>;
static_assert(sizeof(SegmentTable) == kWordBytes);

Status BadHeader(const std::string& why) { return Corrupt("not a header of this protocol: " + why); }

Result<Header> ReadSegment(kj::ArrayPtr<const capnp::word> segment) {
  capnp::ReaderOptions options;
  options.traversalLimitInWords = 2 * segment.size() + kScratchWords;  // each word once, and spare ones
  options.nestingLimit = kNestingMax;
  const kj::ArrayPtr<const capnp::word> segments[] = {segment};
  capnp::SegmentArrayMessageReader message(segments, options);
  const auto root = message.getRoot<wire::Header>();
  if (root.getMagic() != kProtocolMagic) return BadHeader("it does not begin with the protocol's mark");
  if (root.getVersion() != kProtocolVersion) {
    return Unsupported("the other side speaks protocol version " + std::to_string(root.getVersion()) +
                       ", this build version " + std::to_string(kProtocolVersion) +
                       "; run the same release everywhere");
  }
  Faults faults;
  Header header = HeaderReader{faults}.ReadUnion(root);
  if (!faults.first().empty()) return BadHeader(faults.first());
  return header;
}

// Builds `header` in `message`, whose first segment has the size that the caller expects to be enough.
Status WriteMessage(const Header& header, capnp::MessageBuilder& message) {
  Faults faults;
  auto root = message.initRoot<wire::Header>();
  root.setMagic(kProtocolMagic);
  root.setVersion(kProtocolVersion);
  std::visit(HeaderWriter{root, faults}, header.any());
  return faults.first().empty() ? Status() : Invalid("this message cannot be sent: " + faults.first());
}

std::size_t WordsOf(capnp::MessageBuilder& message) {
  std::size_t words = 0;
  for (const auto& segment : message.getSegmentsForOutput()) words += segment.size();
  return words;
}

void WriteFrame(capnp::MessageBuilder& message, std::vector<std::byte>* out) {
  const auto segments = message.getSegmentsForOutput();
  CAPSTAN_CHECK(segments.size() == 1);
  const auto bytes = segments[0].asBytes();
  const SegmentTable table = {0, static_cast<std::uint32_t>(segments[0].size())};
  out->resize(sizeof table + bytes.size());
  std::memcpy(out->data(), &table, sizeof table);
  std::memcpy(out->data() + sizeof table, bytes.begin(), bytes.size());
}

}  // namespace

Status EncodeHeader(const Header& header, std::vector<std::byte>* out) {
  out->clear();
  std::array<capnp::word, kScratchWords> scratch{};
  capnp::MallocMessageBuilder small(kj::arrayPtr(scratch.data(), scratch.size()));
  CAPSTAN_RETURN_IF_ERROR(WriteMessage(header, small));
  const std::size_t words = WordsOf(small);
  if ((words + 1) * kWordBytes > kHeaderBytesMax) {
    return Invalid("this message cannot be sent: its header takes " + std::to_string(words * kWordBytes) +
                   " bytes, at most " + std::to_string(kHeaderBytesMax) + " are allowed");
  }
  if (small.getSegmentsForOutput().size() == 1) {
    WriteFrame(small, out);
    return {};
  }
  // Builds it again, now that the size is known: one segment never needs more words than several.
  capnp::MallocMessageBuilder large(static_cast<unsigned>(words), capnp::AllocationStrategy::FIXED_SIZE);
  CAPSTAN_RETURN_IF_ERROR(WriteMessage(header, large));
  WriteFrame(large, out);
  return {};
}

Result<Header> DecodeHeader(std::span<const std::byte> bytes) {
  if (bytes.size() < 2 * kWordBytes || bytes.size() > kHeaderBytesMax || bytes.size() % kWordBytes != 0) {
    return BadHeader(std::to_string(bytes.size()) + " bytes");
  }
  const std::size_t count = bytes.size() / kWordBytes;
  std::array<capnp::word, kScratchWords> scratch;
  std::vector<capnp::word> large(count > kScratchWords ? count : 0);
  capnp::word* words = count > kScratchWords ? large.data() : scratch.data();
  std::memcpy(static_cast<void*>(words), bytes.data(), bytes.size());
  SegmentTable table;
  std::memcpy(&table, words, sizeof table);
  if (table[0] != 0 || table[1] != count - 1) return BadHeader("its length is not the one it states");
  try {
    return ReadSegment(kj::arrayPtr(words + 1, count - 1));
  } catch (const kj::Exception& error) {
    return BadHeader(error.getDescription().cStr());
  }
}

}  // namespace capstan
