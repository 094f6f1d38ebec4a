#include "worker/libtorch/server_trainer.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

#include "common/base/random.h"
#include "common/config/job/job_section.h"
#include "worker/libtorch/optimizer_state.h"
#include "worker/libtorch/torch_call.h"

namespace capstan::libtorch {

namespace {

constexpr std::uint64_t kComputeDomain = 0x636f6d70757465;  // separates these keys from others with the same seed
constexpr int kNodesMax = 64;
constexpr char kNoSkips[] =
    "with Reduction::kSum every slot of a step has its samples, because servers divide by those that are reported: "
    "write "
    "Backward(loss * 0, {.reduction = Reduction::kSum}) in place of Skip()";

std::string Number(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

// Whether a term of the loss was made by a sum, and none by a mean or a quotient. Searches behind operations that add,
// scale or negate terms.
bool LooksLikeASum(const at::Tensor& loss) {
  std::vector<::torch::autograd::Node*> nodes = {loss.grad_fn().get()};
  bool is_sum = false;
  for (int seen = 0; !nodes.empty() && seen < kNodesMax; ++seen) {
    ::torch::autograd::Node* const node = nodes.back();
    nodes.pop_back();
    if (node == nullptr) continue;
    const std::string name = node->name();
    if (name.rfind("Mean", 0) == 0 || name.rfind("Div", 0) == 0) return false;
    is_sum |= name.rfind("Sum", 0) == 0;
    if (name != "AddBackward0" && name != "SubBackward0" && name != "MulBackward0" && name != "NegBackward0") continue;
    for (const auto& edge : node->next_edges()) nodes.push_back(edge.function.get());
  }
  return is_sum;
}

}  // namespace

ServerTrainer::~ServerTrainer() {
  const auto& notice = parts_.identity.client.on_notice;
  if (done_ || !notice || parts_.job.steps == kOpenEndedSteps) return;
  notice("the program ends at step " + std::to_string(step()) + " of the job's " + std::to_string(parts_.job.steps) +
         ", and the job is not done: it goes on with its other workers, or waits for one. To go on, start the program "
         "again");
}

Result<std::optional<Slot>> ServerTrainer::NextSlot() {
  if (open_) {
    return Invalid("slot " + std::to_string(open_->slot.index) + " of step " + std::to_string(open_->slot.step) +
                   " was handed out, and nothing has ended it: write trainer->Step() in place of optimizer.step(), or "
                   "trainer->Skip() to pass over it");
  }
  while (!done_) {
    if (next_ == work_.slots.size()) {
      CAPSTAN_RETURN_IF_ERROR(NextRound());
      continue;
    }
    const std::uint32_t index = work_.slots[next_++];
    Slot slot = MakeSlot(index);
    if (slot.samples == 0) {
      CAPSTAN_RETURN_IF_ERROR(EndEmptySlot(index));
      continue;
    }
    CAPSTAN_RETURN_IF_ERROR(CallTorch("slot " + std::to_string(index) + " of step " + std::to_string(slot.step), [&] {
      parts_.values->RestoreStatistics();
      at::manual_seed(PhiloxKey(parts_.job.seed ^ kComputeDomain, slot.step, index));
      return Status();
    }));
    open_.emplace();
    open_->slot = std::move(slot);
    return std::optional<Slot>(open_->slot);
  }
  return std::optional<Slot>();
}

Slot ServerTrainer::MakeSlot(std::uint32_t index) const {
  Slot slot;
  slot.step = work_.step;
  slot.index = index;
  const JobFacts& job = parts_.job;
  if (parts_.options.samples == 0) {
    slot.samples = train::SlotShare(job.global_batch, job.slots, SlotIndex(index)).count();
    return slot;
  }
  const train::SamplerSpec spec{job.seed, parts_.options.samples, job.global_batch, job.slots};
  const std::uint64_t per_epoch = train::StepsPerEpoch(spec);
  slot.epoch = work_.step / per_epoch;
  if (parts_.options.order == Order::kShuffled) {
    std::vector<std::uint64_t> rows;
    train::SlotSamples(spec, capstan::Step(work_.step), SlotIndex(index), &rows);
    slot.rows.assign(rows.begin(), rows.end());
  } else {
    const std::uint64_t first = work_.step % per_epoch * job.global_batch;
    const auto share = train::SlotShare(StepSamples(), job.slots, SlotIndex(index));
    for (std::uint64_t i = share.first; i < share.last; ++i) slot.rows.push_back(static_cast<std::int64_t>(first + i));
  }
  slot.samples = slot.rows.size();
  return slot;
}

std::uint64_t ServerTrainer::StepSamples() const {
  const JobFacts& job = parts_.job;
  if (parts_.options.samples == 0) return job.global_batch;
  return train::BatchSize({job.seed, parts_.options.samples, job.global_batch, job.slots}, capstan::Step(work_.step));
}

Status ServerTrainer::NextRound() {
  work_.slots.clear();
  next_ = 0;
  CAPSTAN_ASSIGN_OR_RETURN(auto work, WaitForWork());
  if (!work) return Finish();
  work_ = *std::move(work);
  gradient_norm_ = work_.gradient_norm;
  if (!work_.slots.empty()) lowest_slot_ = work_.slots.front();
  const Status status = BeginRound();
  if (status.code() != Code::kStale) return status;
  work_.slots.clear();
  return {};
}

Result<std::optional<Work>> ServerTrainer::WaitForWork() {
  while (true) {
    parts_.last.GoOnAsking();
    auto work = parts_.client->NextWork(parts_.last.next());
    if (work.ok() || work.status().code() != Code::kTimeout) return work;
  }
}

Status ServerTrainer::BeginRound() {
  Client& client = *parts_.client;
  CAPSTAN_RETURN_IF_ERROR(client.WaitWeights(0, parts_.values->tensor_count() - 1, Client::kNoDeadline));
  CAPSTAN_RETURN_IF_ERROR(CallTorch("the weights of step " + std::to_string(work_.step), [&] {
    parts_.values->Put(client.weights(), work_.step);
    return Status();
  }));
  CAPSTAN_ASSIGN_OR_RETURN(const auto numbers, parts_.rates.GoTo(work_.step));
  return client.SetHyperParameters(numbers);
}

Status ServerTrainer::Finish() {
  CAPSTAN_ASSIGN_OR_RETURN(const PulledVersion version, parts_.last.Take());
  CAPSTAN_RETURN_IF_ERROR(CallTorch("the job's last weights", [&] {
    const Reader& reader = parts_.last.reader();
    parts_.values->Put(reader.weights(), parts_.job.steps);
    parts_.values->ForEachParameter([&](const at::Tensor& parameter, std::uint64_t offset) {
      SetOptimizerState(reader, version.updates, parameter, offset, *parts_.optimizer);
    });
    return Status();
  }));
  CAPSTAN_RETURN_IF_ERROR(parts_.rates.GoTo(parts_.job.steps).status());
  gradient_norm_ = version.gradient_norm;
  parts_.last.Close();
  done_ = true;
  return {};
}

Status ServerTrainer::EndEmptySlot(std::uint32_t index) {
  parts_.last.AskFor(work_.step);
  const auto begun = parts_.client->BeginSlot(index, 0);
  Status status = begun.ok() ? parts_.client->EndSlot(index, {}) : begun.status();
  if (status.code() != Code::kStale) return status;
  work_.slots.clear();
  next_ = 0;
  return {};
}

Status ServerTrainer::NeedSlot(const std::string& call) const {
  if (open_) return {};
  if (done_) return Invalid(call + ": the job is done, so there is nothing more to compute (Trainer::done says so)");
  return Invalid(call +
                 ": no slot is handed out: write while (auto slot = trainer->NextSlot()) around the loop's body, "
                 "with one Step() in each");
}

Status ServerTrainer::UnlessStale(Status status) {
  if (status.code() != Code::kStale) return status;
  open_->is_void = true;
  work_.slots.clear();
  next_ = 0;
  return {};
}

// Returns the factor that makes of the loss's gradient a part of the slot's mean.
Result<double> ServerTrainer::WeightOf(const at::Tensor& loss, const BackwardOptions& options,
                                       std::uint64_t samples) const {
  if (!loss.defined() || loss.numel() != 1 || !loss.requires_grad()) {
    std::ostringstream shape;
    if (loss.defined()) shape << loss.sizes();
    return Invalid(!loss.defined() ? "Backward(loss): the loss is undefined"
                   : loss.numel() != 1
                       ? "Backward(loss): the loss has the shape " + shape.str() +
                             ", and one number is wanted: write loss.mean(), or loss.sum() with Reduction::kSum"
                       : "Backward(loss): no parameter's gradient follows from the loss: compute it from "
                         "model->forward(), outside of torch::NoGradGuard and without detaching it");
  }
  if (options.reduction == Reduction::kSum && has_skipped_) return Invalid("Backward(loss): " + std::string(kNoSkips));
  const std::uint64_t whole = open_->slot.samples;
  if (options.reduction == Reduction::kSum) return static_cast<double>(StepSamples()) / static_cast<double>(whole);
  if (!options.reduction && (parts_.job.slots > 1 || samples != whole) && LooksLikeASum(loss)) {
    return Invalid(
        "Backward(loss): the loss is a sum over its samples, by the operation that made it, and the job takes the "
        "mean: "
        "write Backward(loss, {.reduction = Reduction::kSum}), which gives the gradient of the sum over the global "
        "batch, "
        "or Reduction::kMean where it is a mean");
  }
  return static_cast<double>(samples) / static_cast<double>(whole);
}

Status ServerTrainer::Backward(const at::Tensor& loss, const BackwardOptions& options) {
  CAPSTAN_RETURN_IF_ERROR(NeedSlot("Backward()"));
  Open& open = *open_;
  if (open.is_void) return {};
  const std::uint64_t left = open.slot.samples - open.computed, samples = options.samples ? options.samples : left;
  if (samples == 0 || samples > left) {
    return Invalid("Backward(loss) with " + std::to_string(samples) + " samples: slot " +
                   std::to_string(open.slot.index) + " has " + std::to_string(open.slot.samples) +
                   ", and the calls before covered " + std::to_string(open.computed) +
                   ". Several calls for one slot say {.samples = N} each; one call for "
                   "several losses adds them before");
  }
  double factor = 0.0;
  const Status checked = CallTorch("Backward(loss)", [&]() -> Status {
    CAPSTAN_ASSIGN_OR_RETURN(factor, WeightOf(loss, options, samples));
    return open.gradient == nullptr ? parts_.values->CheckIsClear()
                                    : parts_.values->CheckGradients(open.gradient, "the next Backward()");
  });
  if (!checked.ok()) return checked;
  CAPSTAN_RETURN_IF_ERROR(parts_.rates.Check("Backward()"));
  if (open.gradient == nullptr) {
    const auto begun = parts_.client->BeginSlot(open.slot.index, open.slot.samples);
    CAPSTAN_RETURN_IF_ERROR(UnlessStale(begun.status()));
    if (open.is_void) return {};
    open.gradient = begun.value();
  }
  CAPSTAN_RETURN_IF_ERROR(Compute(loss, factor));
  open.computed += samples;
  const bool is_sum = options.reduction == Reduction::kSum;
  has_sums_ = has_sums_ || is_sum;
  return CallTorch("Backward(loss)", [&] {
    open.loss_sum += loss.item<double>() * (is_sum ? 1.0 : static_cast<double>(samples));
    return Status();
  });
}

Status ServerTrainer::Compute(const at::Tensor& loss, double factor) {
  const double scale = factor * static_cast<double>(work_.loss_scale);
  return CallTorch("Backward(loss) of step " + std::to_string(work_.step), [&] {
    (scale == 1.0 ? loss : loss * scale).backward();
    return parts_.values->TakeGradients(parts_.options.unused, open_->gradient);
  });
}

Status ServerTrainer::SetClip() {
  const Clip& clip = open_->clip;
  if (clipped_step_ == work_.step && clip != told_) {
    return Invalid("slot " + std::to_string(open_->slot.index) + " of step " + std::to_string(work_.step) +
                   " is clipped by ClipNorm(" + Number(clip.norm) + ") and ClipValue(" + Number(clip.value) +
                   ") (0: not), and the slots before it by " + Number(told_.norm) + " and " + Number(told_.value) +
                   ": call them in the same way for every slot of a step");
  }
  if (clip.norm != told_.norm) CAPSTAN_RETURN_IF_ERROR(parts_.client->SetClipNorm(clip.norm));
  if (clip.value != told_.value) CAPSTAN_RETURN_IF_ERROR(parts_.client->SetClipValue(clip.value));
  told_ = clip;
  clipped_step_ = work_.step;
  return {};
}

Status ServerTrainer::Step() {
  CAPSTAN_RETURN_IF_ERROR(NeedSlot("Step()"));
  Open& open = *open_;
  if (open.is_void) return open_.reset(), Status();
  if (open.computed != open.slot.samples) {
    return Invalid("Step(): slot " + std::to_string(open.slot.index) + " of step " + std::to_string(open.slot.step) +
                   " has " + std::to_string(open.slot.samples) + " samples, and Backward() has covered " +
                   std::to_string(open.computed) + ": write trainer->Backward(loss) in place of loss.backward(), or " +
                   "trainer->Skip() to pass over the slot");
  }
  const Status ended = CallTorch("Step()", [&]() -> Status {
    CAPSTAN_RETURN_IF_ERROR(parts_.values->CheckGradients(open.gradient, "Step()"));
    CAPSTAN_RETURN_IF_ERROR(parts_.rates.Check("Step()"));
    return parts_.values->EndSlot(open.gradient);
  });
  if (!ended.ok()) return ended;
  CAPSTAN_RETURN_IF_ERROR(SetClip());
  parts_.last.AskFor(work_.step);
  SlotResult result;
  result.loss_sum = open.loss_sum;
  result.predictions = open.computed;
  result.metrics = std::move(open.metrics);
  CAPSTAN_RETURN_IF_ERROR(UnlessStale(parts_.client->EndSlot(open.slot.index, result)));
  open_.reset();
  return {};
}

Status ServerTrainer::Skip() {
  CAPSTAN_RETURN_IF_ERROR(NeedSlot("Skip()"));
  if (open_->gradient != nullptr) {
    return Invalid("Skip(): slot " + std::to_string(open_->slot.index) + " of step " +
                   std::to_string(open_->slot.step) + " has a Backward() already: pass over a slot before it");
  }
  if (has_sums_) return Invalid("Skip(): " + std::string(kNoSkips));
  has_skipped_ = true;
  const std::uint32_t index = open_->slot.index;
  const bool is_void = open_->is_void;
  open_.reset();
  return is_void ? Status() : EndEmptySlot(index);
}

Status ServerTrainer::ClipNorm(double max_norm) {
  CAPSTAN_RETURN_IF_ERROR(NeedSlot("ClipNorm()"));
  if (!(max_norm > 0) || !std::isfinite(max_norm)) {
    return Invalid("ClipNorm(" + Number(max_norm) +
                   "): a limit is positive and finite; leave the call out to clip nothing");
  }
  open_->clip.norm = max_norm;
  return {};
}

Status ServerTrainer::ClipValue(double max_value) {
  CAPSTAN_RETURN_IF_ERROR(NeedSlot("ClipValue()"));
  if (!(max_value > 0) || !std::isfinite(max_value)) {
    return Invalid("ClipValue(" + Number(max_value) +
                   "): a limit is positive and finite; leave the call out to clip nothing");
  }
  open_->clip.value = max_value;
  return {};
}

Status ServerTrainer::Log(Metric metric) {
  CAPSTAN_RETURN_IF_ERROR(NeedSlot("Log()"));
  open_->metrics.push_back(std::move(metric));
  return {};
}

std::optional<std::uint32_t> ServerTrainer::rank() const {
  return parts_.identity.number ? parts_.identity.number : lowest_slot_;
}

}  // namespace capstan::libtorch
