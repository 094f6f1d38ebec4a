// Progress: follows a run's metrics.jsonl and reports how far the job is.
//
// Kind:   owned by one thread. It reads the lines appended since the last call, even if the file was rotated meanwhile
//         (followed_file.h).
// Fails:  never; it skips lines that are not steps.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/run/followed_file.h"

namespace capstan::cli {

class Progress {
 public:
  static constexpr double kDivergedFactor = 10.0;
  static constexpr double kRateSeconds = 5.0;  // the speed is that of the latest steps which took so long together

  Progress(std::string metrics_path, std::uint64_t steps) : file_(std::move(metrics_path)), steps_(steps) {}

  // Reads new lines. Returns lines worth keeping on the screen: validations.
  std::vector<std::string> Update();
  void AddLine(std::string_view line, std::vector<std::string>* lines_to_keep);

  std::uint64_t steps_done() const { return steps_done_; }
  std::uint64_t steps() const { return steps_; }  // of the whole job
  std::uint64_t steps_skipped() const { return skipped_; }
  // Returns a text such as "step 120/400  loss 2.1342  1234 samples/s  0:35 left"; empty before the first step.
  std::string Line() const;
  std::optional<double> loss() const { return loss_; }
  // Returns a text such as "the loss rose from 2.30 to 603614: ..." if the newest loss is not finite or far above the
  // run's first; otherwise empty.
  std::string Divergence() const;

 private:
  struct Recent {
    double samples = 0, seconds = 0;
  };

  FollowedFile file_;
  const std::uint64_t steps_;
  std::uint64_t steps_done_ = 0, skipped_ = 0;
  std::optional<double> loss_, first_loss_;
  std::deque<Recent> recent_;
  double recent_seconds_ = 0, recent_samples_ = 0;
};

// Returns a text such as "35 s", "2:05", "1:02:03" or "more than 1000 days".
std::string Duration(double seconds);

}  // namespace capstan::cli
