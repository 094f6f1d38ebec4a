// BeatThread: tells a launcher every kBeatMs that this process runs.
//
// Kind:   made and destroyed by one thread, with a thread of its own.
// Why:    a worker's own thread computes for as long as a step takes. A beat says that the process is not stopped and
//         gets time of the machine. That its work goes on is the coordinator's to see.
#pragma once

#include <thread>

#include "cli/run/events.h"

namespace capstan::cli {

class BeatThread {
 public:
  // Nothing is started where there is no launcher. `events` outlives this.
  explicit BeatThread(const EventWriter& events);
  ~BeatThread();
  BeatThread(const BeatThread&) = delete;
  BeatThread& operator=(const BeatThread&) = delete;

 private:
  int end_fd_ = -1;
  std::thread thread_;
};

}  // namespace capstan::cli
