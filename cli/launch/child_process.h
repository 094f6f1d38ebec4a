// ChildProcess: a process that the launcher started: its events, its log, its end.
//
// Kind:   owned by the launcher's thread; the process is killed when that thread or the launcher ends.
// Fails:  Start: no process or pipe to be had. A program that cannot be run says so in its log and ends with 127.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/events.h"
#include "common/status.h"

namespace capstan::cli {

class ChildProcess {
 public:
  static constexpr int kEventsFd = 3;  // in the child

  // `arguments`: without the program's name. Output goes to `log`.
  static Result<ChildProcess> Start(std::string name, const std::string& program, std::vector<std::string> arguments,
                                    std::string log);
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;

  const std::string& name() const { return name_; }
  const std::string& log() const { return log_; }
  int pid() const { return pid_; }
  int events_fd() const { return events_fd_; }

  // Whole events that have arrived.
  std::vector<Event> TakeEvents();
  // Looks whether it has ended.
  bool Reap();
  bool ended() const { return wait_status_.has_value(); }
  bool succeeded() const { return wait_status_ == 0; }
  // By a signal that it did not expect. Requires ended().
  bool was_killed() const;
  // By a signal that it answered by ending in good order. Requires ended().
  bool was_told_to_end() const;
  // "exited with code 1", "was killed by signal 9 (Killed)". Requires ended().
  std::string HowItEnded() const;
  void Signal(int signal) const;
  // Of its log, the newest last.
  std::vector<std::string> LastLines(std::size_t count) const;

 private:
  ChildProcess(std::string name, std::string log, int pid, int events_fd)
      : name_(std::move(name)), log_(std::move(log)), pid_(pid), events_fd_(events_fd) {}

  std::string name_, log_;
  int pid_, events_fd_;
  std::string partial_;  // of an event
  std::optional<int> wait_status_;
};

}  // namespace capstan::cli
