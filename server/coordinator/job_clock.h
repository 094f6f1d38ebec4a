// JobClock: how long a job has waited for progress, and how many generations have begun in this time.
//
// Kind:   a value; part of a Job.
// Why:    after a step, the first recovery and the first new group of workers restart the wait; later ones do not. So a
//         job also fails if it loses shards or workers again and again, or if its group can never form.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "common/base/types.h"
#include "server/coordinator/coordinator_text.h"

namespace capstan::server {

class JobClock {
 public:
  explicit JobClock(Instant now) : started_(now), last_tick_(now), last_progress_(now) {}

  Instant started() const { return started_; }
  Instant last_tick() const { return last_tick_; }
  Instant last_progress() const { return last_progress_; }

  // Returns how long this process was paused, or 0 if the last call was less than kPauseLeast ago. A pause does not
  // count as waiting, because the process read no messages meanwhile.
  Instant Tick(Instant now) {
    const Instant pause = now - std::exchange(last_tick_, now);
    if (pause < kPauseLeast) return {};
    last_progress_ += pause;
    return pause;
  }
  // Notes that a step has ended: the wait and the count of generations begin again.
  void Progress(Instant now) {
    last_progress_ = now;
    attempts_ = {};
  }
  // Begins the wait again, but keeps the count of generations.
  void Restart(Instant now) { last_progress_ = now; }
  // Count a new generation: CountGroup if only the group of workers changes, CountRecovery otherwise.
  void CountGroup() { attempts_.has_time = attempts_.groups++ == 0; }
  void CountRecovery() { attempts_.has_time = attempts_.recoveries++ == 0; }
  // Whether the newest generation is the first of its kind (group or recovery) since the last step.
  bool has_time() const { return attempts_.has_time; }
  void SetCause(std::string cause) { attempts_.cause = std::move(cause); }
  // Returns a text such as "; since the last step 9 generations have begun, the newest because: ..."; empty if none
  // has, or if no cause is set.
  std::string AttemptsText() const {
    const std::uint32_t count = attempts_.recoveries + attempts_.groups;
    if (count == 0 || attempts_.cause.empty()) return "";
    return "; since the last step " + Count(count, "generation") + (count == 1 ? " has" : " have") +
           " begun, the newest because: " + attempts_.cause;
  }

 private:
  static constexpr Instant kPauseLeast = std::chrono::seconds(2);  // the loop calls Tick ten times a second

  struct Attempts {
    std::uint32_t recoveries = 0, groups = 0;  // generations begun
    bool has_time = true;
    std::string cause;  // reason of the newest generation, for log lines
  };

  Instant started_, last_tick_, last_progress_;
  Attempts attempts_;  // since the last step
};

}  // namespace capstan::server
