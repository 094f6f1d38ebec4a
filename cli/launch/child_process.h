// ChildProcess: a process that the launcher started: its events, its log, its end.
//
// Kind:   owned by the launcher's thread. The process is killed when that thread ends or this object is destroyed.
// Fails:  Start: the system gives no process or pipe, or the log cannot be opened. If the program cannot be executed,
//         its log says so, and the process exits with 127.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/launch/output_lines.h"
#include "cli/run/events.h"
#include "common/base/status.h"

namespace capstan::cli {

// kOurs: a program of capstan's, which sends events and writes its own log. kOwn: a program of the user's own. The
// launcher reads the output of that program, writes it into the log, and sends each signal to its whole process group.
enum class ProgramKind : std::uint8_t { kOurs, kOwn };

struct ProgramCall {
  std::string name;  // name of the process in messages
  std::string path;
  std::vector<std::string> arguments;  // without the program's name
  std::string log;
  ProgramKind kind = ProgramKind::kOurs;
  std::vector<std::string> environment;  // for kOwn: the whole environment, as NAME=value
};

class ChildProcess {
 public:
  static constexpr int kEventsFd = 3;  // descriptor in the child
  // TakeOutput stops once it has read so much of a program's output, so that a busy program does not delay the others.
  static constexpr std::size_t kOutputBytes = std::size_t{64} << 10;

  static Result<ChildProcess> Start(const ProgramCall& call);
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;

  const std::string& name() const { return name_; }
  const std::string& log() const { return log_; }
  int pid() const { return pid_; }
  // The descriptor from which the process's events or output come; negative: the process has closed its end.
  int pipe_fd() const { return pipe_fd_; }

  // Returns the complete events that have arrived.
  std::vector<Event> TakeEvents();
  // For kOwn: returns the complete lines that have arrived and, after the process has ended, the rest.
  std::vector<std::string> TakeOutput();
  // Checks whether the process has ended. Returns true once, when the end is first seen. If a user's program has
  // failed, kills what is left of its group.
  bool Reap();
  bool ended() const { return wait_status_.has_value(); }
  bool succeeded() const { return wait_status_ == 0; }
  // Whether a signal killed the process. Requires ended().
  bool was_killed() const;
  // Whether the process handled SIGTERM, SIGINT or SIGHUP and exited with 128 + the signal. Requires ended().
  bool was_told_to_end() const;
  // Returns a text such as "exited with code 1" or "was killed by signal 9 (Killed)". Requires ended().
  std::string HowItEnded() const;
  void Signal(int signal) const;
  // Returns the last lines of the process's log, at most `count`, the newest last.
  std::vector<std::string> LastLines(std::size_t count) const;

 private:
  ChildProcess(const ProgramCall& call, int pid, int pipe_fd, int log_fd)
      : name_(call.name), log_(call.log), kind_(call.kind), pid_(pid), pipe_fd_(pipe_fd), log_fd_(log_fd) {}

  // The id to pass to kill: a user's program stands for its whole process group.
  int target() const { return kind_ == ProgramKind::kOwn ? -pid_ : pid_; }

  std::string name_, log_;
  ProgramKind kind_;
  int pid_, pipe_fd_;
  int log_fd_;           // kOwn
  std::string partial_;  // the unfinished event
  OutputLines output_;
  std::optional<int> wait_status_;
};

}  // namespace capstan::cli
