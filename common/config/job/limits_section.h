// LimitsSection: what [limits] of the job file holds.
//
// Kind:   values.
#pragma once

namespace capstan {

// Seconds.
struct LimitsSection {
  double join = 60;    // until every server and min_workers are there
  double lease = 10;   // silence after which a worker is lost
  double report = 5;   // between two lines that say what is waited for
  double stall = 600;  // without progress, then the job fails; 0: never
  bool operator==(const LimitsSection&) const = default;
};

}  // namespace capstan
