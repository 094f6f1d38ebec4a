// RoomWait: repeats a write for which the disk has no room until there is room.
//
// Kind:   owned by the coordinator loop's thread.
// Limits: waits for at most limits.stall (0: no limit), and until the job is asked to stop.
// Fails:  as the write; kTimeout and kRefused when the wait is given up.
// Why:    the data must be on disk before any other process learns of it, so the job pauses. A person can make room.
#pragma once

#include <functional>
#include <string>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/wire/actor.h"

namespace capstan::server {

class RoomWait {
 public:
  struct Options {
    std::function<void(const Notice&)> on_notice;
    std::function<bool()> stopped;       // returns whether to give up
    std::function<Instant()> now;        // null: the steady clock
    std::function<void(Instant)> pause;  // null: the thread waits
    double report_seconds = 0;           // interval of log lines about the wait
    double stall_seconds = 0;
  };
  static constexpr Instant kLookEvery = std::chrono::milliseconds(250);

  explicit RoomWait(Options options);

  // Calls `write` until it returns anything but kBusy, which is then returned, or the wait is given up. `path`: the
  // file that is written.
  Status Write(const std::string& path, const std::function<Status()>& write);
  // Total time of all waits, also of those that were given up. The job's clock excludes it, so no lease runs out during
  // a wait.
  Instant waited() const { return waited_; }

 private:
  Status GiveUp(const Status& full, Instant waited) const;
  void Log(Severity severity, const std::string& text) const;

  const Options options_;
  Instant waited_{};
};

}  // namespace capstan::server
