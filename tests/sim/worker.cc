#include "tests/sim/worker.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "common/base/hash.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job_config.h"
#include "common/data/encoding.h"
#include "common/wire/messages/group.h"
#include "common/wire/messages/weights.h"
#include "tests/sim/addresses.h"
#include "tests/sim/model.h"

namespace capstan::sim {

using client::SlotSums;
using session::Session;

namespace {

// Whether the simulated faults can cause this failure of a worker.
bool MayBeRefused(const Status& failure) {
  if (failure.code() != Code::kRefused) return false;
  // The coordinator refuses a process whose name a newer process has taken. A coordinator that was replaced cannot
  // write its log, and tells its workers that the job failed.
  return failure.message().ends_with("; this one is the older and ends") ||
         failure.message().ends_with("the log belongs to another coordinator");
}

}  // namespace

SimWorker::SimWorker(Settings settings) : settings_(std::move(settings)) {
  session::SessionOptions options;
  options.name = settings_.name;
  options.nonce = settings_.node;
  options.metrics = settings_.name + ":1";
  options.coordinator = settings_.coordinator;
  options.block_elements = settings_.options->block_elements;
  options.initial_credit = 1 + static_cast<std::uint32_t>(settings_.random->Below(20));
  options.first_retry = std::chrono::milliseconds(200);
  options.connect = [](const std::string& endpoint) { return PeerId{kShards + std::stoull(endpoint.substr(6))}; };
  if (settings_.options->local) options.machine = Hash64(std::as_bytes(std::span(settings_.name))) % 2 == 0 ? "a" : "b";
  session_ = std::make_unique<Session>(std::move(options));
  if (settings_.options->local) machine_ = std::make_unique<MachineWorker>(settings_.machine, session_.get());
  weights_.assign(settings_.catalog->element_count(), NAN);
  if (settings_.config->optimizer.kind == OptimizerKind::kExternal) {
    external_ = std::make_unique<ExternalProgram>(*settings_.catalog, settings_.config->optimizer.states,
                                                  settings_.flaw, settings_.made);
  }
  if (!WorkersUpdate(settings_.options->mode)) return;
  replica_ = std::make_unique<ReplicaWorker>(settings_.replica, *settings_.config, session_.get());
}

bool SimWorker::CopyInPlace(PeerId from, const Message& message) {
  const auto* weights = message.header.As<Weights>();
  if (external_ || replica_ || weights == nullptr || weights->array != 0) return false;
  const std::vector<Block>& blocks = settings_.catalog->blocks();
  if (weights->block >= blocks.size()) return false;
  const Block& block = blocks[weights->block];
  const Encoding encoding = block.EncodingIn(settings_.encoding);
  if (message.payload.size != block.count * BytesPerNumber(encoding)) return false;
  const bool may =
      settings_.flaw == Flaw::kCopiedUnasked || session_->HandsOver(from, message.header, message.payload.size);
  if (may) Decode(encoding, message.payload.data, block.count, weights_.data() + block.flat_offset);
  return may;
}

void SimWorker::Handle(PeerId from, const Message& message, Instant now, Outbox* out) {
  session_->Handle(from, message, now, out);
  Run(now, out);
}

void SimWorker::Tick(Instant now, Outbox* out) {
  session_->Tick(now, out);
  Run(now, out);
}

void SimWorker::Run(Instant now, Outbox* out) {
  for (Session::Event& event : session_->TakeEvents()) {
    std::visit([&](auto& body) { OnEvent(body, now, out); }, event);
  }
  if (replica_) replica_->Run(now, out);
  if (machine_) machine_->Run(now, out);
  const bool complete = std::all_of(arrived_.begin(), arrived_.end(), [](bool yes) { return yes; }) ||
                        (settings_.flaw == Flaw::kOldWeights && !arrived_.empty() && arrived_.front());
  if (has_work_ && now >= busy_until_ && complete) {
    external_ ? ComputeExternal(now, out) : Compute(now, out);
    has_work_ = false;
    idle_call_due_ = true;
  }
  const bool busy = replica_ ? !replica_->idle() : has_work_ || (machine_ && machine_->is_busy());
  if (!busy && (idle_call_due_ || settings_.random->Unit() < 0.05)) {  // twice must do no harm
    idle_call_due_ = false;
    session_->Ready(now, out);
  }
}

void SimWorker::OnEvent(Session::JobFile&, Instant now, Outbox* out) {
  session::Declaration declaration;
  declaration.catalog = *settings_.tensors;
  declaration.mode = settings_.options->mode;
  declaration.steps = settings_.options->steps;
  declaration.encoding = settings_.encoding;
  declaration.numeric_class = "simulated";
  declaration.silence_limit = Instant(static_cast<std::int64_t>(settings_.config->limits.stall * 1e9));
  declaration.speculates = !settings_.options->shared_memory || settings_.node % 2 == 0;
  if (external_) declaration.state_arrays = settings_.config->optimizer.states;
  if (settings_.options->given) declaration.given = FirstWeights();
  session_->Declare(std::move(declaration), now, out);
}

BufferRef SimWorker::FirstWeights() const {
  const ClusterOptions& options = *settings_.options;
  const auto kind = options.given_from + static_cast<std::uint32_t>(settings_.node % options.given_kinds);
  BufferRef weights = settings_.gradients->Take();
  for (std::uint64_t i = 0; i < settings_.catalog->element_count(); ++i) weights.As<float>()[i] = FirstWeight(kind, i);
  return weights;
}

void SimWorker::OnEvent(Session::WorkReady& ready, Instant now, Outbox*) {
  if (replica_) return replica_->TakeWork(ready);
  has_work_ = true;
  work_ = std::move(ready.work);
  loss_scale_ = ready.loss_scale;
  arrived_.assign(settings_.catalog->blocks().size(), ready.weights_complete);
  const std::uint64_t times = settings_.node % 2 == 0 ? settings_.options->uneven : 1;
  const std::uint64_t most = settings_.options->compute_milliseconds * times * 1'000'000;
  busy_until_ = now + Instant(static_cast<std::int64_t>(settings_.random->Below(most)));
  const double slow = settings_.options->slow_computing;
  if (slow > 0 && now < settings_.options->calm_after && settings_.random->Unit() < slow) {
    busy_until_ += Instant(static_cast<std::int64_t>(settings_.random->Below(6'000'000'000)));
  }
}

void SimWorker::OnEvent(Session::WeightsArrived& arrived, Instant, Outbox*) {
  if (external_) return external_->TakeBlock(arrived);
  if (!has_work_) {
    violation_ = "weights arrived for nobody";
    return;
  }
  settings_.handed_over(arrived.version, arrived.block, arrived.payload);
  const Block& block = settings_.catalog->blocks()[arrived.block];
  Decode(block.EncodingIn(settings_.encoding), arrived.payload.data, block.count, weights_.data() + block.flat_offset);
  arrived_[arrived.block] = true;
  const bool keeps = settings_.flaw == Flaw::kOwnProgramState && !program_state_.empty();
  if (arrived.block == 0 && !keeps) program_state_ = arrived.program_state;
}

void SimWorker::OnEvent(Session::WorkVoid& ended, Instant, Outbox*) {
  if (replica_) return replica_->TakeVoid(ended.round);
  if (machine_) machine_->EndRound();
  if (!has_work_ || work_.round != ended.round) return;
  has_work_ = false;
  idle_call_due_ = true;
}

void SimWorker::OnEvent(Session::Failed& failed, Instant, Outbox*) {
  exited_ = true;
  if (!MayBeRefused(failed.status)) violation_ = "a worker failed: " + failed.status.message();
}

// Returns the number of the slot whose data a slot gets. A flawed worker may return another number, so that its result
// is wrong.
std::uint32_t SimWorker::DataOf(SlotIndex slot, std::size_t index) const {
  if (settings_.flaw == Flaw::kDataByPosition) return static_cast<SlotIndex>(index);
  if (settings_.flaw == Flaw::kNotReproducible) return slot + 100 * static_cast<SlotIndex>(settings_.node % 7);
  return slot;
}

// Replaces each node's sum by a wrong one: its slots' gradients added from the last slot to the first.
void SimWorker::SumFromTheLast(const std::vector<BufferRef>& gradients,
                               const std::vector<SlotSums::PartialSum>& parts) const {
  for (const SlotSums::PartialSum& part : parts) {
    if (part.node.IsLeaf() || !part.gradient) continue;
    for (std::uint64_t i = 0; i < settings_.catalog->element_count(); ++i) {
      float sum = 0.0F;
      for (std::size_t index = work_.slots.size(); index-- > 0;) {
        const SlotIndex slot = work_.slots[index];
        if (slot < part.node.begin || slot >= part.node.end) continue;
        const auto samples = static_cast<float>(SamplesOf(*settings_.options, work_.step, slot));
        sum += gradients[index].As<float>()[i] * samples;
      }
      part.gradient.As<float>()[i] = sum;
    }
  }
}

// Computes the gradient of a slot, rounded to the encoding in which it travels; for statistics, the observed values.
void SimWorker::ComputeSlot(std::uint32_t data, float* gradient) const {
  for (const Block& block : settings_.catalog->blocks()) {
    const float factor = NormFactor(*settings_.options, work_.gradient_norm);
    const float scale = block.kind == TensorKind::kStatistic ? 1.0F : loss_scale_ * factor;
    for (std::uint64_t i = block.flat_offset; i < block.flat_offset + block.count; ++i) {
      gradient[i] = GradientOf(*settings_.options, weights_[i], work_.step, data, i) * scale;
    }
    RoundTo(block.EncodingIn(settings_.encoding), {gradient + block.flat_offset, block.count});
  }
}

// Gives the version that the program has, or makes the round's version and computes its slots.
void SimWorker::ComputeExternal(Instant now, Outbox* out) {
  if (work_.keep) {
    client::ProgramVersion::Parts parts = external_->Give();
    session::VersionSettled given{.how = session::VersionSettled::How::kGiven, .round = work_.round};
    given.arrays = std::move(parts.arrays);
    given.program_state = std::move(parts.head);
    return session_->Settle(std::move(given), now, out);
  }
  if (std::string wrong = external_->MakeVersion(work_); !wrong.empty()) {
    violation_ = "a program was given a version that is none: " + wrong;
    return;
  }
  if (settings_.flaw != Flaw::kVersionUnsaid)
    session_->Settle({.round = work_.round, .generation = work_.generation, .version = work_.step}, now, out);
  weights_ = external_->weights();
  if (!work_.slots.empty()) Compute(now, out);
}

void SimWorker::Compute(Instant now, Outbox* out) {
  const ClusterOptions& options = *settings_.options;
  const Catalog& catalog = *settings_.catalog;
  session_->SetHyperParameters(HyperParametersOf(options, work_.step));
  SlotSums sums(work_.slots, ReductionTree(work_.slot_count, AggregationOf(*settings_.config)));
  std::vector<BufferRef> gradients;
  for (std::size_t index = 0; index < work_.slots.size(); ++index) {
    const SlotIndex slot = work_.slots[index];
    BufferRef gradient = settings_.gradients->Take();
    ComputeSlot(DataOf(slot, index), gradient.As<float>());
    if (settings_.flaw == Flaw::kSumInSlotOrder) {
      gradients.push_back(settings_.gradients->Take());
      std::memcpy(gradients.back()->data(), gradient->data(), catalog.element_count() * sizeof(float));
    }
    sums.BeginSlot(SamplesOf(options, work_.step, slot), std::move(gradient));
    sums.RangeReady(0, catalog.element_count());
  }
  if (settings_.flaw == Flaw::kSumInSlotOrder) SumFromTheLast(gradients, sums.parts());
  const session::PushWay way =
      machine_ ? machine_->BeginRound(work_, loss_scale_, sums.parts(), now) : session::PushWay::kNow;
  for (std::size_t i = catalog.blocks().size(); i-- > 0;) {
    const Block& block = catalog.blocks()[i];
    for (const SlotSums::PartialSum& part : sums.parts()) {
      Slice payload;
      if (part.gradient) {
        std::byte* const place = part.gradient->data() + block.flat_offset * sizeof(float);
        const Encoding encoding = part.node.IsLeaf() ? block.EncodingIn(settings_.encoding) : Encoding::kFp32;
        Encode(encoding, {part.gradient.As<float>() + block.flat_offset, block.count}, place);
        payload = {part.gradient, place, block.count * BytesPerNumber(encoding)};
      }
      const std::uint64_t hash = part.gradient ? Hash64(payload.bytes()) : 0;
      const auto index = static_cast<BlockIndex>(i);
      session_->Push({work_.round, part.node, index, part.samples, loss_scale_, hash, std::move(payload), way}, now,
                     out);
    }
  }
  for (SlotIndex slot : work_.slots) {
    SlotReport report;
    report.slot = slot;
    report.samples = SamplesOf(options, work_.step, slot);
    report.loss_sum = static_cast<double>(slot) + static_cast<double>(work_.step.value);
    report.predictions = report.samples;
    report.clipping = ClippingOf(options, work_.step);
    const bool gives = options.program_state == ClusterOptions::ProgramState::kEverySlot ||
                       (options.program_state == ClusterOptions::ProgramState::kLastSlot && slot == work_.slots.back());
    std::string state = gives ? NextProgramState(program_state_, work_.step) : std::string();
    session_->EndSlot(work_.round, report, std::move(state), now, out);
  }
  if (settings_.flaw == Flaw::kOwnProgramState) program_state_ = NextProgramState(program_state_, work_.step);
}

}  // namespace capstan::sim
