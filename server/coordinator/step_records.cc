#include "server/coordinator/step_records.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "server/coordinator/coordinator_text.h"

namespace capstan::server {

void StepRecords::Add(StepRecord record, Instant now) {
  record.seconds = ToSeconds(now - last_commit_);
  last_commit_ = now;
  if (seconds_.size() < kStepsMeasured) seconds_.resize(seconds_.size() + 1);
  seconds_[next_second_++ % kStepsMeasured] = record.seconds;
  metrics_->step.Set(static_cast<double>(record.step.value));
  metrics_->samples.Add(record.samples);
  metrics_->step_seconds.Observe(record.seconds);
  metrics_->loss.Set(record.loss);
  metrics_->learning_rate.Set(record.learning_rate);
  if (has_global_steps_) {
    metrics_->gradient_norm.Set(record.gradient_norm);
    metrics_->loss_scale.Set(record.loss_scale);
  }
  if (record.validation_loss) metrics_->validation_loss.Set(*record.validation_loss);
  records_.push_back(std::move(record));
}

Instant StepRecords::SlowAfter(Instant least) const {
  if (seconds_.empty()) return least;
  std::vector<double> sorted = seconds_;
  const auto p95 = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() * 95 / 100);
  std::nth_element(sorted.begin(), p95, sorted.end());
  return std::max(least, FromSeconds(4 * *p95));
}

std::optional<double> StepRecords::MeanSeconds() const {
  if (seconds_.empty()) return std::nullopt;
  return std::accumulate(seconds_.begin(), seconds_.end(), 0.0) / static_cast<double>(seconds_.size());
}

}  // namespace capstan::server
