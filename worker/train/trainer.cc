#include "worker/train/trainer.h"

namespace capstan::train {

namespace {

using SteadyClock = std::chrono::steady_clock;
using monitoring::WaitPhase;
using monitoring::WorkerPhase;

// How long one wait lasts before a requested stop is checked again.
constexpr auto kWaitSlice = std::chrono::milliseconds(200);

double Seconds(SteadyClock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

Trainer::Trainer(Client& client, SlotComputer& computer, std::shared_ptr<monitoring::WorkerMetrics> metrics,
                 std::function<bool()> stop_requested, TrainerLanes lanes)
    : client_(client),
      computer_(computer),
      metrics_(std::move(metrics)),
      stop_requested_(std::move(stop_requested)),
      lanes_(lanes) {}

Status Trainer::Run() {
  for (;;) {
    const auto asked = SteadyClock::now();
    CAPSTAN_ASSIGN_OR_RETURN(const std::optional<Work> work, WaitForWork());
    const auto given = SteadyClock::now();
    if (lanes_.compute != nullptr) lanes_.compute->Add("wait for commit", asked, given, step_);
    TracePushes();
    if (!work) return {};
    const double waited = Seconds(given - asked);
    metrics_->wait_seconds[WaitPhase::kCommit].Observe(waited);
    metrics_->phase_seconds[WorkerPhase::kWait].Add(waited);
    if (Status status = RunRound(*work); !status.ok() && status.code() != Code::kStale) return status;
    if (stop_requested_()) return client_.Leave("asked to stop");
  }
}

// Waits for the next round. nullopt: the job is done or a stop was requested.
Result<std::optional<Work>> Trainer::WaitForWork() {
  for (;;) {
    Result<std::optional<Work>> work = client_.NextWork(SteadyClock::now() + kWaitSlice);
    if (work.ok() || work.status().code() != Code::kTimeout) return work;
    // This wait has no deadline of its own: the client and the coordinator have deadlines, and report what is missing.
    if (!stop_requested_()) continue;
    CAPSTAN_RETURN_IF_ERROR(client_.Leave("asked to stop"));
    return std::optional<Work>();
  }
}

Status Trainer::RunRound(const Work& work) {
  const auto begin = SteadyClock::now();
  step_ = work.step;
  ++round_;
  metrics_->step.Set(static_cast<double>(work.step));
  metrics_->slots.Set(static_cast<double>(work.slots.size()));
  metrics_->generation.Set(static_cast<double>(work.generation));
  metrics_->loss_scale.Set(static_cast<double>(work.loss_scale));
  for (SlotIndex slot : work.slots) CAPSTAN_RETURN_IF_ERROR(RunSlot(work, slot));
  metrics_->steps.Add(1);
  metrics_->step_seconds.Observe(Seconds(SteadyClock::now() - begin));
  return {};
}

Status Trainer::RunSlot(const Work& work, SlotIndex slot) {
  waited_ = {};
  Status status;
  nn::Hooks hooks;
  hooks.need_weights = [&](TensorIndex first, TensorIndex last) {
    // If the wait fails, the model still finishes this slot, with the weights that are there. Its gradient is dropped.
    const auto before = SteadyClock::now();
    do {
      if (status.ok() || status.code() == Code::kTimeout)
        status = client_.WaitWeights(first, last, SteadyClock::now() + kWaitSlice);
    } while (status.code() == Code::kTimeout && !stop_requested_());
    if (status.code() == Code::kTimeout) status = {Code::kStale, "asked to stop"};
    const auto after = SteadyClock::now();
    if (lanes_.compute != nullptr) lanes_.compute->Add("wait for weights", before, after, step_);
    waited_ += after - before;
  };
  const auto declare_final = [&](const auto& declare) {
    const auto before = SteadyClock::now();
    if (first_push_ == SteadyClock::time_point()) first_push_ = before;
    if (status.ok()) status = declare();
    encoded_ += SteadyClock::now() - before;
  };
  hooks.gradient_ready = [&](TensorIndex first, TensorIndex last) {
    declare_final([&] { return client_.GradientReady(first, last); });
  };
  hooks.gradient_ready_from = [&](TensorIndex tensor, std::uint64_t element) {
    declare_final([&] { return client_.GradientReadyFrom(tensor, element); });
  };

  const WeightsView weights{client_.weights(), client_.narrow_weights(), round_};
  SlotResult result;
  if (computer_.Validates(Step{work.step})) {
    CAPSTAN_ASSIGN_OR_RETURN(const nn::LossSums validation, computer_.Validate(slot, weights, hooks));
    CAPSTAN_RETURN_IF_ERROR(status);
    result.validation_loss_sum = validation.loss;
    result.validation_predictions = static_cast<std::uint64_t>(validation.count);
    result.validation_correct = static_cast<std::uint64_t>(validation.correct);
    CountWait();
  }
  const std::span<const std::uint64_t> samples = computer_.Samples(Step{work.step}, slot);
  CAPSTAN_ASSIGN_OR_RETURN(float* const gradient, client_.BeginSlot(slot, samples.size()));
  if (gradient != nullptr) {
    CAPSTAN_ASSIGN_OR_RETURN(const nn::LossSums sums, computer_.Gradient(Step{work.step}, slot, samples,
                                                                         work.loss_scale, weights, gradient, hooks));
    CAPSTAN_RETURN_IF_ERROR(status);
    result.loss_sum = sums.loss;
    result.predictions = static_cast<std::uint64_t>(sums.count);
    if (sums.count > 0) metrics_->loss.Set(sums.loss / static_cast<double>(sums.count));
  }
  CountSlot(samples.size());
  const auto before = SteadyClock::now();
  const Status ended = client_.EndSlot(slot, result);
  metrics_->phase_seconds[WorkerPhase::kEncode].Add(Seconds(SteadyClock::now() - before));
  return ended;
}

void Trainer::CountSlot(std::size_t samples) {
  metrics_->samples.Add(samples);
  const PhaseTimes times = computer_.TakeTimes();
  metrics_->phase_seconds[WorkerPhase::kData].Add(Seconds(times.data));
  metrics_->phase_seconds[WorkerPhase::kForward].Add(Seconds(times.forward - waited_));
  const SteadyClock::duration encoded = std::exchange(encoded_, {});
  metrics_->phase_seconds[WorkerPhase::kBackward].Add(Seconds(times.backward - encoded));
  metrics_->phase_seconds[WorkerPhase::kEncode].Add(Seconds(encoded));
  CountWait();
}

// Adds the span of the previous round's pushes to the trace, unless some of them are still not acknowledged.
void Trainer::TracePushes() {
  const auto begin = std::exchange(first_push_, {});
  if (lanes_.pushes == nullptr || begin == SteadyClock::time_point()) return;
  const auto staged = client_.counters().all_staged;
  if (staged > begin) lanes_.pushes->Add("push until staged", begin, staged, step_);
}

void Trainer::CountWait() {
  const double waited = Seconds(std::exchange(waited_, {}));
  metrics_->phase_seconds[WorkerPhase::kWait].Add(waited);
  metrics_->wait_seconds[WaitPhase::kWeights].Observe(waited);
}

}  // namespace capstan::train
