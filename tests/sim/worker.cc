#include "tests/sim/worker.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/hash.h"
#include "tests/sim/model.h"
#include "worker/client/slot_sums.h"

namespace capstan::sim {

using client::Session;
using client::SlotSums;

SimWorker::SimWorker(Settings settings) : settings_(std::move(settings)) {
  client::SessionOptions options;
  options.name = settings_.name;
  options.nonce = settings_.node;
  options.coordinator = settings_.coordinator;
  options.block_elements = settings_.options->block_elements;
  options.initial_credit = 1 + static_cast<std::uint32_t>(settings_.random->Below(20));
  options.first_retry = std::chrono::milliseconds(200);
  options.connect = [](const std::string& endpoint) { return PeerId{100 + std::stoull(endpoint.substr(6))}; };
  session_ = std::make_unique<Session>(std::move(options));
  weights_.assign(settings_.catalog->element_count(), NAN);
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
  const bool complete = std::all_of(arrived_.begin(), arrived_.end(), [](bool yes) { return yes; });
  if (has_work_ && now >= busy_until_ && complete) {
    Compute(now, out);
    has_work_ = false;
    idle_call_due_ = true;
  }
  if (!has_work_ && (idle_call_due_ || settings_.random->Unit() < 0.05)) {  // more than once is once
    idle_call_due_ = false;
    session_->Ready(now, out);
  }
}

void SimWorker::OnEvent(Session::JobFile&, Instant now, Outbox* out) {
  client::Declaration declaration;
  declaration.catalog = *settings_.tensors;
  declaration.mode = settings_.options->mode;
  declaration.steps = settings_.options->steps;
  declaration.numeric_class = "simulated";
  session_->Declare(std::move(declaration), now, out);
}

void SimWorker::OnEvent(Session::WorkReady& ready, Instant now, Outbox*) {
  has_work_ = true;
  work_ = std::move(ready.work);
  arrived_.assign(settings_.catalog->blocks().size(), ready.weights_held);
  busy_until_ = now + Instant(static_cast<std::int64_t>(settings_.random->Below(60'000'000)));
}

void SimWorker::OnEvent(Session::WeightsArrived& arrived, Instant, Outbox*) {
  if (!has_work_) {
    violation_ = "weights arrived for nobody";
    return;
  }
  const Block& block = settings_.catalog->blocks()[arrived.block];
  std::memcpy(weights_.data() + block.flat_offset, arrived.payload.data, arrived.payload.size);
  arrived_[arrived.block] = true;
}

void SimWorker::OnEvent(Session::WorkVoid& ended, Instant, Outbox*) {
  if (!has_work_ || work_.round != ended.round) return;
  has_work_ = false;
  idle_call_due_ = true;
}

void SimWorker::OnEvent(Session::Failed& failed, Instant, Outbox*) {
  exited_ = true;
  // A worker of a former life under the same name is told to go; nothing else may fail.
  if (failed.status.code() != Code::kRefused) violation_ = "a worker failed: " + failed.status.message();
}

void SimWorker::Compute(Instant now, Outbox* out) {
  const ClusterOptions& options = *settings_.options;
  const Catalog& catalog = *settings_.catalog;
  SlotSums sums(work_.slots, work_.slot_count);
  for (SlotIndex slot : work_.slots) {
    BufferRef gradient = settings_.gradients->Take();
    for (std::uint64_t i = 0; i < catalog.element_count(); ++i) {
      gradient.As<float>()[i] = GradientOf(weights_[i], work_.step, slot, i);
    }
    sums.BeginSlot(SamplesOf(options, work_.step, slot), std::move(gradient));
    sums.RangeReady(0, catalog.element_count());
  }
  for (std::size_t i = catalog.blocks().size(); i-- > 0;) {
    const Block& block = catalog.blocks()[i];
    for (const SlotSums::Part& part : sums.parts()) {
      Slice payload;
      if (part.gradient) {
        payload = {part.gradient, part.gradient->data() + block.flat_offset * sizeof(float),
                   block.count * sizeof(float)};
      }
      const std::uint64_t hash = part.gradient ? Hash64(payload.bytes()) : 0;
      session_->Push(work_.round, part.node, static_cast<BlockIndex>(i), part.samples, hash, std::move(payload), now,
                     out);
    }
  }
  for (SlotIndex slot : work_.slots) {
    SlotReport report;
    report.slot = slot;
    report.samples = SamplesOf(options, work_.step, slot);
    report.loss_sum = static_cast<double>(slot) + static_cast<double>(work_.step.value);
    report.predictions = report.samples;
    session_->EndSlot(work_.round, report, now, out);
  }
}

}  // namespace capstan::sim
