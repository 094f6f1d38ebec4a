// LimitsSection: section [limits] of the job file, in seconds.
//
// Kind:   values.
#pragma once

namespace capstan {

struct LimitsSection {
  double join = 60;    // longest wait for every server and min_workers
  double lease = 10;   // silence after which a worker is lost
  double report = 5;   // interval of log lines that name what the job waits for
  double stall = 600;  // time without progress after which the job fails; 0: never
  bool operator==(const LimitsSection&) const = default;
};

}  // namespace capstan
