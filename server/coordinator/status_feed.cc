#include "server/coordinator/status_feed.h"

#include "common/base/unix_time.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/history_files.h"

namespace capstan::server {

void StatusFeed::ReadHistory(const std::string& run_dir) {
  history_.With([&](History& history) { server::ReadHistory(run_dir, &history); });
}

void StatusFeed::Publish(const Coordinator& core, Instant now) { text_.Publish(core.StatusJson(now)); }

void StatusFeed::Look(const Coordinator& core, Instant now) {
  if (now < next_ && core.state() == published_) return;
  next_ = now + kEvery;
  published_ = core.state();
  Publish(core, now);
}

void StatusFeed::AddSteps(const std::vector<StepRecord>& records) {
  history_.With([&](History& history) {
    for (const StepRecord& record : records) history.AddStep(record);
  });
}

void StatusFeed::AddEvents(const std::vector<AuditEntry>& entries, Step step) {
  if (entries.empty()) return;
  const double now = UnixTime();
  history_.With([&](History& history) {
    for (const AuditEntry& entry : entries) history.AddEvent(entry, now, step.value);
  });
}

std::string StatusFeed::HistoryJson() const {
  return history_.With([](const History& history) { return history; }).Json();
}

}  // namespace capstan::server
