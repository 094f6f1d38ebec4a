// JobView: follows a job for `capstan top`: asks it again and again, and keeps the model for the picture.
//
// Kind:   owned by one thread. Refresh waits for the coordinator's answer, up to HttpGet's limit.
// Limits: kFileBytes of metrics.jsonl are read in each refresh; of the newest lines of audit.jsonl, kEventLines.
// Fails:  never: the model says that a job does not answer. state() says when there is nothing left to follow.
// Why:    a coordinator may be started again, with another address. Older ones have no /api/v1/history: then the curve
//         and the events come from the run directory.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "cli/run/followed_file.h"
#include "cli/view/job_look.h"
#include "cli/view/job_model.h"
#include "cli/view/job_target.h"

namespace capstan::cli {

class JobView {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::uint64_t kFileBytes = std::uint64_t{8} << 20;
  static constexpr std::size_t kEventLines = 50;
  static constexpr std::chrono::seconds kHistoryEvery{5};

  // `patience`: for so long a coordinator that does not answer is asked again.
  JobView(JobTarget target, std::chrono::seconds patience);

  // Looks at the job. `goes_on`: as for HttpGet; where it returned false, nothing has changed.
  void Refresh(Clock::time_point now, const std::function<bool()>& goes_on);

  // kFollowing: more may come. kEnded: the job has ended. kLost: it has not answered for
  // longer than the patience, or cannot be read.
  enum class State { kFollowing, kEnded, kLost };
  State state() const { return state_; }
  const JobModel& model() const { return model_; }
  const JobLook& look() const { return look_; }

 private:
  void TakeAnswer(Clock::time_point now, const std::function<bool()>& goes_on);
  void AskHistory(Clock::time_point now, const std::function<bool()>& goes_on);
  bool MayComeBack() const;
  void ForgetHistory();
  void ReadFiles(const std::function<bool()>& goes_on);
  void ReadStep(std::string_view line);
  void ReadEvent(std::string_view line);
  void NoteSilence(Clock::time_point now);

  const JobTarget target_;
  const std::chrono::seconds patience_;
  JobLook look_;
  JobModel model_;
  State state_ = State::kFollowing;
  std::optional<Clock::time_point> silent_since_;
  std::optional<Clock::time_point> history_at_;  // when the history was asked for
  bool has_answered_ = false;
  bool has_history_ = false;                    // the curve comes from the coordinator
  std::optional<FollowedFile> steps_, events_;  // null: the job is known by its address only
  JobFigures last_step_;                        // of metrics.jsonl
};

}  // namespace capstan::cli
