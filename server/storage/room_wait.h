// RoomWait: what becomes of a write for which the disk has no room: it is done again until there is.
//
// Kind:   owned by the coordinator loop's thread.
// Limits: the job's limits.stall (0: it waits for as long as it takes), and whoever asks the job to stop.
// Fails:  as the write; kTimeout and kRefused when the wait is given up.
// Why:    what is to be written must be on disk before anybody hears of it, so the job pauses; and a full disk is a
//         thing that people mend.
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
    std::function<bool()> stopped;       // whether to give up
    std::function<Instant()> now;        // null: the steady clock
    std::function<void(Instant)> pause;  // null: the thread waits
    double report_seconds = 0;           // between two lines that say what is waited for
    double stall_seconds = 0;
  };
  static constexpr Instant kLookEvery = std::chrono::milliseconds(250);

  explicit RoomWait(Options options);

  // What `write` says once it says anything but kBusy. `path`: what it writes to.
  Status Write(const std::string& path, const std::function<Status()>& write);
  // All that it has ever waited. For the job this time has not passed: nobody's lease runs out in it.
  Instant waited() const { return waited_; }

 private:
  Status GiveUp(const Status& full, Instant waited) const;
  void Say(Severity severity, const std::string& text) const;

  const Options options_;
  Instant waited_{};
};

}  // namespace capstan::server
