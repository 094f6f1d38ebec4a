#include "cli/view/job_view.h"

#include <utility>

#include "cli/report/progress.h"
#include "cli/run/go_on_file.h"
#include "cli/run/http_get.h"
#include "cli/run/json_fields.h"
#include "common/config/job/job_section.h"
#include "common/config/job_config.h"

namespace capstan::cli {
namespace {

using nlohmann::json;
using Kind = JobLook::Kind;

bool IsOver(const std::string& state) { return state == "finished" || state == "stopped" || state == "failed"; }

}  // namespace

JobView::JobView(JobTarget target, std::chrono::seconds patience) : target_(std::move(target)), patience_(patience) {
  model_.source = target_.name();
  model_.state = "asking";
  if (target_.run_dir.empty()) return;
  steps_.emplace(target_.run_dir + "/metrics.jsonl");
  events_.emplace(target_.run_dir + "/audit.jsonl");
  events_->SkipToLast(kEventLines);
}

void JobView::Refresh(Clock::time_point now, const std::function<bool()>& goes_on) {
  JobLook look = LookAtJob(target_, goes_on);
  if (!goes_on()) return;
  look_ = std::move(look);
  model_.notice.clear();
  state_ = State::kFollowing;
  if (look_.kind == Kind::kAnswers) {
    TakeAnswer(now, goes_on);
  } else if (MayComeBack()) {
    NoteSilence(now);
  } else if (look_.kind == Kind::kAtRest || look_.kind == Kind::kStarting) {
    silent_since_.reset();
    ForgetStatus(&model_);
    model_.state = WordOf(look_);
    model_.notice = look_.text;
    if (look_.kind == Kind::kAtRest) state_ = State::kEnded;
    ForgetHistory();
  } else {
    NoteSilence(now);
  }
  if (!has_history_) ReadFiles(goes_on);
}

// Whether the coordinator that has answered, and now has left its run directory, may be started again: one that was
// started by hand, of a job that is not done. Of `capstan launch`, the launcher would have the directory.
bool JobView::MayComeBack() const {
  return look_.kind == Kind::kAtRest && !look_.done_steps && has_answered_ && GoOnCallOf(target_.run_dir).empty();
}

void JobView::ForgetHistory() {
  if (!std::exchange(has_history_, false)) return;
  model_.loss = {};
  model_.events.clear();
}

void JobView::TakeAnswer(Clock::time_point now, const std::function<bool()>& goes_on) {
  silent_since_.reset();
  has_answered_ = true;
  TakeStatus(look_.status, &model_);
  if (!history_at_ || now - *history_at_ >= kHistoryEvery) AskHistory(now, goes_on);
}

void JobView::AskHistory(Clock::time_point now, const std::function<bool()>& goes_on) {
  history_at_ = now;
  const Result<std::string> body = HttpGet(look_.address, "/api/v1/history", look_.pages, goes_on);
  if (!body.ok()) return;  // the next status says whether it does not answer; an older one has no history
  const json history = ParseJson(*body);
  if (!history.is_object()) return;
  has_history_ = true;
  TakeHistory(history, &model_);
}

// Reads a part of the files of a job that runs, so that the picture does not wait for a long file. Reads the files of a
// job at rest to their end.
void JobView::ReadFiles(const std::function<bool()>& goes_on) {
  if (!steps_) return;
  while (steps_->Read([this](std::string_view line) { ReadStep(line); }, kFileBytes) && state_ == State::kEnded &&
         goes_on()) {
  }
  events_->Read([this](std::string_view line) { ReadEvent(line); }, kFileBytes);
  if (model_.figures.step) return;
  if (!last_step_.steps) {
    const Result<JobConfig> config = LoadJobConfig(target_.run_dir + "/job.toml");
    if (config.ok() && config->steps() != kOpenEndedSteps) last_step_.steps = config->steps();
    if (config.ok() && model_.job.empty()) model_.job = config->name();
  }
  model_.figures = last_step_;  // no coordinator says more
}

void JobView::ReadStep(std::string_view line) {
  const json step = ParseJson(line);
  const std::optional<std::uint64_t> index = CountIn(step, "step");
  if (!index || *index == UINT64_MAX) return;
  last_step_.step = *index + 1;
  last_step_.loss = NumberIn(step, "loss");
  last_step_.learning_rate = NumberIn(step, "lr");
  last_step_.grad_norm = NumberIn(step, "grad_norm");
  if (last_step_.loss) model_.loss.Add(*index, *last_step_.loss);
  if (const auto validation = NumberIn(step, "validation_loss")) last_step_.validation_loss = validation;
}

void JobView::ReadEvent(std::string_view line) {
  const json event = ParseJson(line);
  std::string text = TextIn(event, "text");
  if (text.empty()) return;
  const std::string time = TextIn(event, "time");
  const std::size_t day = time.find('T');
  model_.events.push_back({day == time.npos ? time : time.substr(day + 1), std::nullopt, std::move(text)});
  if (model_.events.size() > kEventLines) model_.events.erase(model_.events.begin());
}

void JobView::NoteSilence(Clock::time_point now) {
  // The coordinator has left after the end of the job. Of a run directory, its rest is waited for.
  if (IsOver(model_.state) && (target_.run_dir.empty() || look_.kind == Kind::kAtRest)) {
    state_ = State::kEnded;
    return;
  }
  if (!silent_since_) silent_since_ = now;
  const auto silent = std::chrono::duration_cast<std::chrono::seconds>(now - *silent_since_);
  const bool unreadable = look_.kind == Kind::kUnreadable;
  if (silent >= patience_ || unreadable) state_ = State::kLost;
  model_.notice =
      unreadable
          ? look_.text
          : "no answer for " + Duration(static_cast<double>(silent.count())) + ", trying again" +
                (silent < patience_ ? "; giving up in " + Duration(static_cast<double>((patience_ - silent).count()))
                                    : "; given up") +
                ": " + look_.text;
}

}  // namespace capstan::cli
