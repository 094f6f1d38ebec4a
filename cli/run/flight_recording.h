// FlightRecording: the flight recorder of a process of capstan, and the signals that have it written.
//
// Kind:   owned by main's thread, and outlives the threads that have lanes. Its own thread waits for kFlightSignal.
// Limits: one per process at a time. A stack that overflows leaves no recording, because the handlers have no stack of
//         their own.
// Fails:  a file that cannot be opened is a warning: the process goes on, and records nothing.
// Why:    the signal has a thread of its own, so a process whose other threads hang still answers. Only SIGABRT,
//         SIGSEGV, SIGBUS, SIGFPE and SIGILL have handlers, which write the file and leave the rest to the actions that
//         were there before.
#pragma once

#include <signal.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "common/base/status.h"
#include "common/flight/flight_recorder.h"

namespace capstan::cli {

inline constexpr int kFlightSignal = SIGUSR2;

// Blocks kFlightSignal, whose default is to end the process. Call it before any thread starts.
void BlockFlightSignal();

class FlightRecording {
 public:
  // `process`: its name. `folder`: for its file; empty: nothing is recorded.
  FlightRecording(const std::string& process, const std::string& folder);
  ~FlightRecording();
  FlightRecording(const FlightRecording&) = delete;
  FlightRecording& operator=(const FlightRecording&) = delete;

  // Returns the lane of this name, as FlightRecorder::AddLane does; null: nothing is recorded.
  FlightLane* AddLane(const std::string& name) { return recorder_ ? recorder_->AddLane(name) : nullptr; }
  // Writes the file because of the error that ends the process. Waits up to a second for another thread that writes.
  void WriteFailure(const Status& status);

 private:
  void Serve() const;

  std::unique_ptr<FlightRecorder> recorder_;  // null: nothing is recorded
  int signal_fd_ = -1, stop_fd_ = -1;
  std::atomic<bool> ends_{false};  // a failure is written; requests, which would keep the file busy, no longer are
  std::thread thread_;
};

// The folder of a run's flight files.
inline std::string FlightFolderOf(const std::string& run_dir) { return run_dir + "/flight"; }

}  // namespace capstan::cli
