// The Client for jobs whose shards keep and update the weights: it pulls weights and pushes gradients.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "common/base/float_control.h"
#include "common/base/hash.h"
#include "common/base/shared_memory.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job_config.h"
#include "common/data/clipping.h"
#include "common/data/encoding.h"
#include "common/data/metrics_check.h"
#include "common/wire/messages/limits.h"
#include "common/wire/messages/slot_report.h"
#include "worker/client/client_base.h"
#include "worker/client/describe.h"
#include "worker/client/finished_blocks.h"
#include "worker/client/gradient_check.h"
#include "worker/client/program_version.h"
#include "worker/client/slot_sums.h"
#include "worker/client/slot_verdict.h"
#include "worker/client/step_settings.h"

namespace capstan {

namespace {

using client::SlotSums;
using session::Session;

constexpr auto kLookUp = std::chrono::milliseconds(20);  // how often to look at events while waiting for something else

// Copies the kFromWorker tensors into a flat array laid out as the catalog; null when no tensor is kFromWorker.
Result<BufferRef> CopyInitialWeights(const Catalog& catalog, const float* given, BufferPool* pool) {
  if (!catalog.is_given()) return BufferRef();
  BufferRef weights = pool->Take();
  std::memset(weights->data(), 0, catalog.element_count() * sizeof(float));
  for (TensorIndex i = 0; i < catalog.tensors().size(); ++i) {
    const TensorSpec& tensor = catalog.tensors()[i];
    if (tensor.init.kind != InitKind::kFromWorker) continue;
    const std::string name = "tensor \"" + tensor.name + "\" has its first weights given, ";
    if (given == nullptr) return Invalid(name + "and WorkerDescription::given is null");
    const std::span<const float> values(given + catalog.flat_offset(i), tensor.ElementCount());
    const auto bad = std::find_if_not(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
    if (bad != values.end()) {
      return Invalid(name + "and element " + std::to_string(bad - values.begin()) + " of them is " +
                     std::to_string(*bad) + "; a job cannot begin with it");
    }
    std::memcpy(weights.As<float>() + catalog.flat_offset(i), values.data(), values.size_bytes());
  }
  return weights;
}

class ParameterServerClient : public client::ClientBase {
 public:
  ParameterServerClient(client::Connection connection, std::unique_ptr<client::MachineReduce> machine,
                        std::function<bool()> stop_requested)
      : ClientBase(std::move(connection)), machine_(std::move(machine)), stop_requested_(std::move(stop_requested)) {}
  ~ParameterServerClient() override {
    if (machine_) machine_->Stop();
    Close();
  }

  Status Declare(const WorkerDescription& description) override;
  const float* weights() const override { return weights_.wide ? weights_.wide.As<const float>() : nullptr; }
  const std::uint16_t* narrow_weights() const override {
    return weights_.narrow ? weights_.narrow.As<const std::uint16_t>() : nullptr;
  }
  std::uint64_t element_count() const override { return catalog_ ? catalog_->element_count() : 0; }
  Status WaitWeights(std::uint32_t first, std::uint32_t last, Deadline deadline) override;
  Status SetHyperParameters(const std::vector<HyperParameters>& groups) override;
  Status SetClipNorm(double max_norm) override {
    return SetClipping("SetClipNorm", {max_norm, settings_.clipping().value});
  }
  Status SetClipValue(double max_value) override {
    return SetClipping("SetClipValue", {settings_.clipping().norm, max_value});
  }
  Status SetProgramState(std::string_view state) override;
  const std::string& program_state() const override { return external_ ? external_->state() : program_state_; }
  Result<std::optional<Work>> NextWork(Deadline deadline) override;
  Status TakeVersion() override;
  const float* mean_gradient() const override {
    return work().source == VersionSource::kGradient ? weights_.wide.As<const float>() : nullptr;
  }
  Status KeepVersion(const float* weights, std::string_view state) override;
  Result<float*> BeginSlot(std::uint32_t slot, std::uint64_t samples) override;
  Status GradientReady(std::uint32_t first, std::uint32_t last) override;
  Status GradientReadyFrom(std::uint32_t tensor, std::uint64_t element) override;
  Status EndSlot(std::uint32_t slot, const SlotResult& result) override;
  ClientCounters counters() const override;

 private:
  void GiveUpRound() override {
    if (machine_) machine_->GiveUpRound();
    slot_open_ = false;
    settings_.EndRound();
    sums_.reset();
    state_after_step_.clear();
  }
  void BeginRound(const session::Session::WorkReady& ready) override;
  void TakeBlock(session::BlockArrived& block) override {
    if (block.block < arrived_.size()) arrived_[block.block] = true;  // external: they come before the round
    if (block.block == 0) program_state_ = std::move(block.program_state);
  }
  Status SetClipping(const char* call, const Clipping& clipping);
  Status Settle(const char* call);
  void FinishBlock(BlockIndex block);
  void PushBlock(BlockIndex block);
  std::span<float> GradientOf(const Block& block) {  // in the current slot's gradient
    return {slot_gradient_.As<float>() + block.flat_offset, block.count};
  }
  bool waits_for_all() const { return verdict_ && verdict_->waits_for_all(); }
  bool left_out() const { return verdict_ && verdict_->left_out(); }
  void RefuseGradient();
  // Tells the session what the program has made of the round.
  void Settle(session::VersionSettled settled) {
    external_->settled = true;
    settled.round = round();
    settled.generation = Generation{work().generation};
    settled.version = Step{work().step};
    loop().Send(std::move(settled));
  }
  void BeginMachineReduce();
  Status AwaitMachineReduce();

  std::unique_ptr<client::MachineReduce> machine_;  // null: this worker adds up nothing with others
  const std::function<bool()> stop_requested_;
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<BufferPool> pool_;  // flat gradient buffers; the loop may hold one until its blocks are staged
  struct {
    BufferRef wide;
    BufferRef narrow;  // null: fp32
  } weights_;
  Aggregation aggregation_ = Aggregation::kMean;
  Encoding encoding_ = Encoding::kFp32;  // the job's encoding of weights and leaves

  std::unique_ptr<client::SlotVerdict> verdict_;  // null: global steps, whose verdicts are the coordinator's
  std::atomic<std::uint64_t> slots_left_out_{0};  // by verdict_; any thread reads it

  client::StepSettings settings_;
  std::unique_ptr<client::ProgramVersion> external_;  // null: the servers run the optimizer

  // The current round.
  std::vector<bool> arrived_;     // this round's weights, by block
  std::string program_state_;     // belongs to the weights; arrives with block 0
  std::string state_after_step_;  // what SetProgramState gave in this round
  std::unique_ptr<SlotSums> sums_;
  std::size_t slots_begun_ = 0;
  bool slot_open_ = false;  // begun and not ended
  session::PushWay way_ = session::PushWay::kNow;
  std::uint64_t slot_samples_ = 0;
  BufferRef slot_gradient_;
  client::FinishedBlocks finished_;  // of the current slot
};

Status ParameterServerClient::Declare(const WorkerDescription& description) {
  if (catalog_) return Misuse("Declare comes once");
  CAPSTAN_ASSIGN_OR_RETURN(const JobConfig config, ParseJobConfig(job_file(), "the coordinator's job file"));
  if (WorkersUpdate(config.mode())) {
    return Misuse("a job of mode \"allreduce\" is trained by capstan-worker; set job.mode = \"sync\"");
  }
  std::vector<TensorSpec> specs = client::SpecsOf(description.tensors, config.optimizer);
  CAPSTAN_ASSIGN_OR_RETURN(Catalog catalog, Catalog::Create(specs));
  auto pool = std::make_unique<BufferPool>(catalog.element_count() * sizeof(float), memory());
  CAPSTAN_ASSIGN_OR_RETURN(BufferRef given, CopyInitialWeights(catalog, description.given, pool.get()));
  catalog_ = std::make_unique<Catalog>(std::move(catalog));
  pool_ = std::move(pool);
  weights_.wide = BufferPool(catalog_->element_count() * sizeof(float)).Take();  // a process that forks passes it on
  aggregation_ = AggregationOf(config);
  settings_.Begin(config.mode(), config.optimizer, catalog_->group_count());
  encoding_ = EncodingOf(config);
  if (encoding_ != Encoding::kFp32) {
    weights_.narrow = BufferPool(catalog_->element_count() * BytesPerNumber(encoding_)).Take();
  }
  verdict_ = client::SlotVerdict::Create(config);
  if (config.optimizer.kind == OptimizerKind::kExternal) {
    if (catalog_->group_count() > 0) {
      return Misuse(
          "Declare: tensors have groups, and with [optimizer] kind = \"external\" the program has all "
          "hyper-parameters; declare the tensors without group");
    }
    external_ = std::make_unique<client::ProgramVersion>(catalog_->element_count(), config.optimizer.states);
  }
  session::Declaration declaration = client::DeclarationOf(description, config, std::move(specs));
  declaration.given = std::move(given);
  declaration.speculates = memory() == nullptr || memory()->is_closed();  // the transport copies weights to their place
  session::DeclareCommand declare{std::move(declaration), weights_.wide.As<float>(),
                                  weights_.narrow ? weights_.narrow.As<std::uint16_t>() : nullptr};
  if (external_) declare.states = external_->places();
  if (machine_) {
    machine_->Begin(*catalog_, encoding_, [this](session::Command&& command) { loop().Send(std::move(command)); });
    declare.on_machine_group = [this](const session::Session::MachineGrouping& group) { machine_->TakeGroup(group); };
    declare.on_step_done = [this](const session::Session::StepDone& left) { machine_->TakeStepDone(left); };
  }
  loop().Send(std::move(declare));
  Declared();
  return {};
}

void ParameterServerClient::BeginRound(const session::Session::WorkReady& ready) {
  const session::RoundWork& next = ready.work;
  if (verdict_) {
    if (const auto scale = verdict_->LossScaleOf(next.slots.front())) work().loss_scale = *scale;
  }
  arrived_.assign(catalog_->blocks().size(), ready.weights_complete);
  if (external_) external_->settled = false;
  sums_ = std::make_unique<SlotSums>(next.slots, ReductionTree(next.slot_count, aggregation_));
  slots_begun_ = 0;
  slot_open_ = false;
}

Status ParameterServerClient::WaitWeights(std::uint32_t first, std::uint32_t last, Deadline deadline) {
  if (!failure().ok()) return failure();
  if (!sums_ || !catalog_->Has(first, last)) {
    return Misuse("WaitWeights(" + std::to_string(first) + ", " + std::to_string(last) +
                  ") names no tensors of a round");
  }
  for (BlockIndex block = catalog_->first_block(first); block <= catalog_->last_block(last); ++block) {
    while (!arrived_[block]) {
      if (round_is_over()) return {Code::kStale, "the round is over"};
      CAPSTAN_RETURN_IF_ERROR(TakeEvent(deadline, "weights", session::WaitKind::kExchange));
    }
  }
  return round_is_over() ? Status(Code::kStale, "the round is over") : Status();
}

Status ParameterServerClient::SetHyperParameters(const std::vector<HyperParameters>& groups) {
  if (!failure().ok()) return failure();
  if (const Status status = settings_.TakeHyperParameters(groups); !status.ok()) return Misuse(status.message());
  loop().Send(session::HyperParametersCommand{groups});
  return {};
}

Status ParameterServerClient::SetClipping(const char* call, const Clipping& clipping) {
  if (!failure().ok()) return failure();
  if (external_) {
    return Misuse(std::string(call) +
                  ": with [optimizer] kind = \"external\" the program clips the mean gradient itself");
  }
  const Status status = settings_.TakeClipping(call, clipping);
  return status.ok() ? status : Misuse(status.message());
}

Status ParameterServerClient::SetProgramState(std::string_view state) {
  if (!failure().ok()) return failure();
  if (!sums_) return Misuse("SetProgramState comes in a round, before the end of a slot");
  if (external_) {
    return Misuse("SetProgramState: with [optimizer] kind = \"external\" the state goes with KeepVersion");
  }
  if (verdict_) {
    return Misuse(
        "SetProgramState: only mode sync has steps that a program's state could be kept with; keep it out of "
        "this job, or set job.mode = \"sync\"");
  }
  if (state.size() > kProgramStateBytesMax) {
    return Misuse("SetProgramState: the state of step " + std::to_string(work().step) + " has " +
                  std::to_string(state.size()) + " bytes, and at most " + std::to_string(kProgramStateBytesMax) +
                  " are kept with a step; leave out what follows from the step or from the job's files");
  }
  state_after_step_ = state;
  return {};
}

// Called when gradients of a round are final.
Status ParameterServerClient::Settle(const char* call) {
  const Status status = settings_.Settle(call);
  return status.ok() ? status : Misuse(status.message());
}

Result<std::optional<Work>> ParameterServerClient::NextWork(Deadline deadline) {
  const bool unsettled = external_ && sums_ && failure().ok() && !external_->settled && LookUp().ok();
  if (unsettled && work().slots.empty() && !work().keep) {
    Settle({.how = session::VersionSettled::How::kDeclined});
  } else if (unsettled) {
    return Misuse("NextWork comes after " + std::string(work().keep ? "KeepVersion" : "TakeVersion") +
                  " in the round of step " + std::to_string(work().step));
  }
  return ClientBase::NextWork(deadline);
}

Status ParameterServerClient::TakeVersion() {
  if (!failure().ok()) return failure();
  if (!external_ || !sums_ || external_->settled || work().keep) {
    return Misuse("TakeVersion comes once in a round without `keep`, in a job with [optimizer] kind = \"external\"");
  }
  CAPSTAN_RETURN_IF_ERROR(LookUp());
  if (work().source == VersionSource::kWhole) {
    if (Status status = external_->Take(weights(), program_state_); !status.ok()) return Fail(std::move(status));
  } else {
    external_->Forget();
  }
  Settle({.how = session::VersionSettled::How::kTaken});
  return {};
}

Status ParameterServerClient::KeepVersion(const float* weights, std::string_view state) {
  if (!failure().ok()) return failure();
  if (!external_ || !sums_ || !work().keep || weights == nullptr) {
    return Misuse("KeepVersion comes with weights, in a round with `keep`");
  }
  Result<client::ProgramVersion::Parts> parts = external_->Give(weights, state);
  if (!parts.ok()) return Fail(parts.status());
  Settle({.how = session::VersionSettled::How::kGiven,
          .arrays = std::move(parts->arrays),
          .program_state = std::move(parts->head)});
  return {};
}

Result<float*> ParameterServerClient::BeginSlot(std::uint32_t slot, std::uint64_t samples) {
  if (!failure().ok()) return failure();
  if (!sums_ || slot_open_ || slots_begun_ == work().slots.size() || work().slots[slots_begun_] != slot) {
    return Misuse("BeginSlot(" + std::to_string(slot) + ") is not the next slot of the round");
  }
  if (external_ && !external_->settled) return Misuse("BeginSlot comes after TakeVersion");
  ++slots_begun_;
  slot_open_ = true;
  slot_samples_ = samples;
  if (verdict_) verdict_->BeginSlot();
  slot_gradient_ = samples == 0 ? BufferRef() : pool_->Take();
  sums_->BeginSlot(samples, slot_gradient_);
  finished_.Begin(*catalog_);
  if (machine_ && sums_->at_last_slot()) BeginMachineReduce();
  return samples == 0 ? nullptr : slot_gradient_.As<float>();
}

void ParameterServerClient::BeginMachineReduce() {
  way_ = machine_->BeginRound({round(), Generation{work().generation}, Step{work().step}, work().slot_count,
                               work().loss_scale, sums_->parts()});
}

// Waits until all sums are pushed that this worker pushes for others. The worker must stay in the round that long,
// because Session drops pushes of a past round.
Status ParameterServerClient::AwaitMachineReduce() {
  const session::WaitTimer timer(&loop().waits(), session::WaitKind::kExchange);
  while (!machine_->Done(std::chrono::steady_clock::now() + kLookUp)) {
    CAPSTAN_RETURN_IF_ERROR(LookUp());
    if (stop_requested_()) return {Code::kStale, "asked to stop"};
  }
  return {};
}

ClientCounters ParameterServerClient::counters() const {
  ClientCounters counters = ClientBase::counters();
  counters.slots_left_out = slots_left_out_.load(std::memory_order_relaxed);
  if (!machine_) return counters;
  const client::MachineReduce::Counters machine = machine_->counters();
  counters.reduced_bytes = machine.reduced_bytes;
  counters.group_bytes_out = machine.bytes_out;
  counters.groups_formed = machine.groups_formed;
  counters.device_groups_formed = machine.device_groups_formed;
  return counters;
}

Status ParameterServerClient::GradientReady(std::uint32_t first, std::uint32_t last) {
  const FloatControl float_control;
  if (!slot_open_ || !catalog_->Has(first, last)) {
    return Misuse("GradientReady(" + std::to_string(first) + ", " + std::to_string(last) +
                  ") names no tensors of a slot that was begun");
  }
  CAPSTAN_RETURN_IF_ERROR(Settle("GradientReady"));
  const Status taken = finished_.Take(*catalog_, first, last, [this](BlockIndex block) { FinishBlock(block); });
  if (!taken.ok()) {
    return Misuse("GradientReady(" + std::to_string(first) + ", " + std::to_string(last) + "): " + taken.message());
  }
  return failure();
}

Status ParameterServerClient::GradientReadyFrom(std::uint32_t tensor, std::uint64_t element) {
  const FloatControl float_control;
  const std::string call = "GradientReadyFrom(" + std::to_string(tensor) + ", " + std::to_string(element) + ")";
  if (!slot_open_ || !catalog_->Has(tensor, tensor)) {
    return Misuse(call + " names no tensor of a slot that was begun");
  }
  CAPSTAN_RETURN_IF_ERROR(Settle("GradientReadyFrom"));
  const auto finished = [this](BlockIndex block) { FinishBlock(block); };
  const Status taken = finished_.TakeFrom(*catalog_, tensor, element, finished);
  return taken.ok() ? failure() : Misuse(call + ": " + taken.message());
}

// Adds the slot's final gradient of a block to the sums of its nodes. In the round's last slot the block is pushed,
// unless pushes wait until the slot's whole gradient has been checked.
void ParameterServerClient::FinishBlock(BlockIndex index) {
  const Block& block = catalog_->blocks()[index];
  // Rounds to the job's encoding first, so that sums and checks see what each slot's own push would have carried.
  if (slot_gradient_ && (sums_->slots().size() > 1 || verdict_)) {
    RoundTo(block.EncodingIn(encoding_), GradientOf(block));
  }
  sums_->RangeReady(block.flat_offset, block.count);
  if (sums_->at_last_slot() && !waits_for_all()) PushBlock(index);
}

void ParameterServerClient::PushBlock(BlockIndex index) {
  if (round_is_over() || !failure().ok()) return;
  const Block& block = catalog_->blocks()[index];
  for (const SlotSums::PartialSum& part : sums_->parts()) {
    session::PushCommand push{round(), part.node, index, left_out() ? 0 : part.samples, work().loss_scale, 0, {}, way_};
    if (part.gradient && !left_out()) {
      const std::span<const float> gradient(part.gradient.As<float>() + block.flat_offset, block.count);
      const bool checks = verdict_ && !waits_for_all();
      push.payload = {part.gradient, std::as_bytes(gradient).data(), gradient.size_bytes()};
      const Encoding encoding = part.node.IsLeaf() ? block.EncodingIn(encoding_) : Encoding::kFp32;
      if (encoding != Encoding::kFp32) {
        if (checks && !client::AllFinite(gradient)) return RefuseGradient();
        Encode(encoding, gradient, part.gradient->data() + block.flat_offset * sizeof(float));  // in place
        push.payload.size = block.count * BytesPerNumber(encoding);
      }
      // Hashed here, while the payload is in this core's cache.
      const std::optional<std::uint64_t> hash =
          checks && encoding == Encoding::kFp32 ? client::HashIfFinite(gradient) : Hash64(push.payload.bytes());
      if (!hash) return RefuseGradient();
      push.payload_hash = *hash;
    }
    loop().Send(std::move(push));
  }
  if (machine_) machine_->BlockReady(index);
}

void ParameterServerClient::RefuseGradient() {
  (void)Fail(Invalid("the gradient of slot " + std::to_string(work().slots[slots_begun_ - 1]) + ", its push " +
                     std::to_string(work().step + 1) +
                     ", is not finite. Look for NaN in the data or a learning rate that is too large, or set "
                     "job.on_nonfinite = \"skip\" to leave such pushes out"));
}

Status ParameterServerClient::EndSlot(std::uint32_t slot, const SlotResult& result) {
  const FloatControl float_control;
  if (!slot_open_ || work().slots[slots_begun_ - 1] != slot) {
    return Misuse("EndSlot(" + std::to_string(slot) + ") does not end the slot that was begun");
  }
  if (Status status = CheckMetrics(result.metrics); !status.ok()) {
    return Misuse("EndSlot(" + std::to_string(slot) + "): " + status.message());
  }
  CAPSTAN_RETURN_IF_ERROR(Settle("EndSlot"));
  slot_open_ = false;
  finished_.TakeRest([this](BlockIndex block) { FinishBlock(block); });
  if (waits_for_all()) {
    if (slot_samples_ > 0) {
      const std::span<float> gradient(slot_gradient_.As<float>(), catalog_->element_count());
      if (!verdict_->Decide(slot, *catalog_, gradient, work().loss_scale, result.loss_sum)) RefuseGradient();
    }
    if (!failure().ok()) return failure();
    for (BlockIndex block = static_cast<BlockIndex>(catalog_->blocks().size()); block-- > 0;) PushBlock(block);
  }
  if (!failure().ok()) return failure();
  if (left_out()) slots_left_out_.fetch_add(1, std::memory_order_relaxed);
  SlotReport report = client::ReportOf(slot, left_out() ? 0 : slot_samples_, result);
  report.clipping = settings_.clipping();
  loop().Send(session::EndSlotCommand{round(), std::move(report), state_after_step_});
  if (machine_ && sums_->at_last_slot()) CAPSTAN_RETURN_IF_ERROR(AwaitMachineReduce());
  return round_is_over() ? Status(Code::kStale, "the round is over") : failure();
}

}  // namespace

std::unique_ptr<Client> client::CreateParameterServerClient(Connection connection,
                                                            std::unique_ptr<MachineReduce> machine,
                                                            std::function<bool()> stop_requested) {
  return std::make_unique<ParameterServerClient>(std::move(connection), std::move(machine), std::move(stop_requested));
}

}  // namespace capstan
