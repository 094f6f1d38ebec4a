#include "cli/launch/restart_budget.h"

#include <algorithm>

namespace capstan::cli {

std::optional<RestartBudget::TimePoint> RestartBudget::Next(TimePoint now, LastRun last_run) {
  while (!restarts_.empty() && now - restarts_.front() >= kWindow) restarts_.pop_front();
  if (restarts_.size() >= max_) return std::nullopt;
  restarts_.push_back(now);
  if (last_run == LastRun::kOfUse) wait_ = kFirstWait;
  const TimePoint due = now + wait_;
  wait_ = std::min(wait_ * 2, kLongestWait);
  return due;
}

}  // namespace capstan::cli
