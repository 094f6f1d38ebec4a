// CoordinatorWatch: decides when a process that waits for its coordinator logs the wait, and when it stops waiting.
//
// Kind:   a value; part of a loop.
// Fails:  Look: kTimeout when the coordinator has been silent for join_seconds or stall_seconds.
// Why:    a process's log should tell the user which other process it waits for.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/base/types.h"

namespace capstan::server {

class CoordinatorWatch {
 public:
  struct Options {
    std::string address;                          // of the coordinator
    std::string said_in = "cluster.coordinator";  // the setting that names the address
    double join_seconds = 60;                     // longest wait for its first message; 0: no limit
    double stall_seconds = 0;                     // longest wait between two of its messages; 0: no limit
    double report_seconds = 5;                    // silence before the first log line, and time between two lines
  };

  CoordinatorWatch(Options options, Instant now) : options_(std::move(options)), since_(now), last_look_(now) {}

  void NoteMessage(Instant now) {
    since_ = now;
    was_answered_ = true;
    back_ = back_ || said_;
    said_ = false;
  }
  // Returns the line to log now; empty if none is due.
  Result<std::string> Look(Instant now);

 private:
  Options options_;
  Instant since_{};  // when the silence began
  Instant last_look_{}, next_line_{};
  bool was_answered_ = false;
  bool said_ = false;  // this silence was logged
  bool back_ = false;  // a logged silence has ended; the next Look reports it
};

}  // namespace capstan::server
