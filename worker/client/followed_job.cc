#include "worker/client/followed_job.h"

#include <chrono>
#include <utility>

#include "common/config/job/limits_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job_config.h"

namespace capstan::client {

namespace {

// Whether the view is well formed: shards are numbered 0, 1, 2 and so on.
bool ShardsInOrder(const View& view) {
  for (std::size_t i = 0; i < view.shards.size(); ++i) {
    if (view.shards[i].shard != i) return false;
  }
  return true;
}

bool IsOlder(const View& view, const View& known) {
  if (view.term != known.term) return view.term < known.term;
  if (view.generation != known.generation) return view.generation < known.generation;
  return view.sequence < known.sequence || view.step < known.step;
}

}  // namespace

Result<bool> FollowedJob::Take(const View& view, Instant now) {
  if (!ShardsInOrder(view)) return false;
  CAPSTAN_RETURN_IF_ERROR(TakeFacts(view));
  if (file_.empty() || (view_ && IsOlder(view, *view_))) return false;
  if (!view_ || view_->readable != view.readable || view_->generation != view.generation) step_since_ = now;
  SeeEnd(view);
  view_ = view;
  return true;
}

Status FollowedJob::TakeFacts(const View& view) {
  if (!id_.IsNull() && view.job != id_) {
    return Refused(address_ + " runs another job now; connect a reader to that one");
  }
  if (!view.job_file.empty() && file_.empty()) {
    CAPSTAN_ASSIGN_OR_RETURN(const JobConfig config, ParseJobConfig(view.job_file, "the coordinator's job file"));
    id_ = view.job;
    file_ = view.job_file;
    steps_ = config.steps();
    versions_ = ReadableIn(config.mode());
    state_names_ = StateNames(config.optimizer);
    lease_ = std::chrono::duration_cast<Instant>(std::chrono::duration<double>(config.limits.lease));
    if (config.limits.stall > 0) {
      silence_limit_ = std::chrono::duration_cast<Instant>(std::chrono::duration<double>(config.limits.stall));
    }
  }
  if (!view.catalog.empty() && !catalog_) {
    CAPSTAN_ASSIGN_OR_RETURN(Catalog catalog, Catalog::Create(view.catalog, block_elements_));
    catalog_ = std::make_unique<Catalog>(std::move(catalog));
  }
  return {};
}

// Notes the job's last version when the job is done. Forgets it when the job has another generation or no longer runs:
// after the loss of a shard a new generation may take back the last steps, and a job may fail at its end.
void FollowedJob::SeeEnd(const View& view) {
  const bool as_before = view.phase == JobPhase::kRunning && view_ && view.generation == view_->generation;
  if (view.phase == JobPhase::kDone) {
    last_ = view.readable;
  } else if (!as_before) {
    last_.reset();
  }
}

}  // namespace capstan::client
