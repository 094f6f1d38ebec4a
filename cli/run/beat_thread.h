// BeatThread: tells a launcher every kBeatMs that this process is alive.
//
// Kind:   created and destroyed by one thread; it runs its own thread.
// Why:    a worker's main thread computes for as long as a step takes. A beat shows that the process is not stopped and
//         gets processor time. Whether its work makes progress is checked by the coordinator, not by beats.
#pragma once

#include <thread>

#include "cli/run/events.h"

namespace capstan::cli {

class BeatThread {
 public:
  // Starts no thread if no launcher started this process. `events` outlives this object.
  explicit BeatThread(const EventWriter& events);
  ~BeatThread();
  BeatThread(const BeatThread&) = delete;
  BeatThread& operator=(const BeatThread&) = delete;

 private:
  int end_fd_ = -1;
  std::thread thread_;
};

}  // namespace capstan::cli
