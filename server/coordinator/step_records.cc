#include "server/coordinator/step_records.h"

#include <algorithm>
#include <utility>

#include "server/coordinator/coordinator_text.h"

namespace capstan::server {

void StepRecords::Add(StepRecord record, Instant now) {
  record.seconds = ToSeconds(now - last_commit_);
  last_commit_ = now;
  if (recent_.size() < kStepsMeasured) recent_.resize(recent_.size() + 1);
  recent_[next_++ % kStepsMeasured] = {record.seconds, record.samples};
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
  if (recent_.empty()) return least;
  std::vector<double> sorted;
  for (const Recent& step : recent_) sorted.push_back(step.seconds);
  const auto p95 = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() * 95 / 100);
  std::nth_element(sorted.begin(), p95, sorted.end());
  return std::max(least, FromSeconds(4 * *p95));
}

std::optional<double> StepRecords::MeanSeconds() const {
  if (recent_.empty()) return std::nullopt;
  double seconds = 0.0;
  for (const Recent& step : recent_) seconds += step.seconds;
  return seconds / static_cast<double>(recent_.size());
}

std::optional<double> StepRecords::SamplesPerSecond() const {
  double seconds = 0.0, samples = 0.0;
  for (const Recent& step : recent_) {
    seconds += step.seconds;
    samples += static_cast<double>(step.samples);
  }
  if (seconds <= 0.0) return std::nullopt;
  return samples / seconds;
}

}  // namespace capstan::server
