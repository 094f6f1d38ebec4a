// CoordinatorWatch: what a process that waits for its coordinator says, and when it gives up.
//
// Kind:   a value; part of a loop.
// Fails:  Look: kTimeout, for a silence that is longer than its limit.
// Why:    no process waits without saying for whom.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/base/types.h"

namespace capstan::server {

class CoordinatorWatch {
 public:
  struct Options {
    std::string address;                          // host:port of the coordinator
    std::string said_in = "cluster.coordinator";  // where people have written it
    double join_seconds = 60;                     // until it is heard first; 0: no limit
    double stall_seconds = 0;                     // between two signs of its life; 0: no limit
    double report_seconds = 5;                    // from one line of a wait to the next
  };

  CoordinatorWatch(Options options, Instant now) : options_(std::move(options)), since_(now), last_look_(now) {}

  void Heard(Instant now) {
    since_ = now;
    heard_ = true;
    back_ = back_ || said_;
    said_ = false;
  }
  // The line that is due, or nothing.
  Result<std::string> Look(Instant now);

 private:
  Options options_;
  Instant since_{};  // the silence
  Instant last_look_{}, next_line_{};
  bool heard_ = false;
  bool said_ = false;  // that this silence lasts
  bool back_ = false;  // it ended after that, which is to be said
};

}  // namespace capstan::server
