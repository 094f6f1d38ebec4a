// ChildProcess: a process that the launcher started: what it tells, its log, its end.
//
// Kind:   owned by the launcher's thread; the process is killed when that thread or the launcher ends.
// Fails:  Start: no process or pipe to be had. A program that cannot be run says so in its log and ends with 127.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/launch/output_lines.h"
#include "cli/run/events.h"
#include "common/base/status.h"

namespace capstan::cli {

// kOurs: it tells events, and writes its log itself. kOwn: a program of the user's own, whose output the launcher reads
// and writes into its log; it leads a group of processes that gets every signal as a whole.
enum class ProgramKind : std::uint8_t { kOurs, kOwn };

struct ProgramCall {
  std::string name;  // of the process, for people
  std::string path;
  std::vector<std::string> arguments;  // without the program's name
  std::string log;
  ProgramKind kind = ProgramKind::kOurs;
  std::vector<std::string> environment;  // kOwn: all of it, as NAME=value
};

class ChildProcess {
 public:
  static constexpr int kEventsFd = 3;  // in the child
  // Read of an own program's output at a time, so that one that writes much does not keep the launcher from the others.
  static constexpr std::size_t kOutputBytes = std::size_t{64} << 10;

  static Result<ChildProcess> Start(const ProgramCall& call);
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;

  const std::string& name() const { return name_; }
  const std::string& log() const { return log_; }
  int pid() const { return pid_; }
  // Where events or output come from; negative: it has closed its end.
  int pipe_fd() const { return pipe_fd_; }

  // Whole events that have arrived.
  std::vector<Event> TakeEvents();
  // kOwn: whole lines that have arrived, and after its end what is left.
  std::vector<std::string> TakeOutput();
  // Looks whether it has ended. What a failed program of the user's own has left of its group is killed.
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
  ChildProcess(const ProgramCall& call, int pid, int pipe_fd, int log_fd)
      : name_(call.name), log_(call.log), kind_(call.kind), pid_(pid), pipe_fd_(pipe_fd), log_fd_(log_fd) {}

  // Its id, or that of the group that it leads, as kill takes it.
  int target() const { return kind_ == ProgramKind::kOwn ? -pid_ : pid_; }

  std::string name_, log_;
  ProgramKind kind_;
  int pid_, pipe_fd_;
  int log_fd_;           // kOwn
  std::string partial_;  // of an event
  OutputLines output_;
  std::optional<int> wait_status_;
};

}  // namespace capstan::cli
