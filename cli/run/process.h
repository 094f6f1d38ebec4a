// PrepareProcess, StopSignals, Print: the first steps of each binary's main function, and its output to the user.
//
// Kind:   main's thread owns StopSignals; any thread may call Notify.
// Why:    signals are read like messages: no code runs inside a signal handler.
#pragma once

#include <signal.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cli/run/events.h"
#include "common/base/status.h"
#include "common/wire/actor.h"

namespace capstan::cli {

// A process may report another sender's stop signal after the launcher has sent it SIGTERM. The launcher then sends it
// this signal too: the system keeps only one pending signal of a kind, so the launcher's SIGTERM may have been lost. A
// process that got that SIGTERM ignores this signal. A pending SIGTERM is read first, because its number is lower.
inline const int kToldToStop = SIGRTMIN;
inline constexpr int kExitDone = 0, kExitFailed = 1, kExitUsage = 2, kExitSignal = 128;  // last: + the signal's number

// Sets the allocator up for large messages and ignores SIGPIPE. Call before any thread starts.
void PrepareProcess();

// Raises the limit of open files as far as allowed, but not above `most`.
inline constexpr std::uint64_t kWorkerFilesMax = std::uint64_t{1} << 20;  // every file of tokens stays open
inline constexpr std::uint64_t kServerFilesMax = 32'768;  // a stranger's idle connection takes 27 KiB of memory, too
void RaiseOpenFilesLimit(std::uint64_t most);

// Blocks SIGINT, SIGTERM, SIGCHLD and, unless it was ignored before, SIGHUP: they then end no process, but make Wait
// return. Create the object before any thread.
//
// A process started by a launcher ends when its launcher asks. It reports a stop signal from anyone else to the
// launcher and waits for the answer. So when all processes of a job get SIGTERM at once, as from systemd, servers and
// workers stay until the coordinator has taken its last snapshot. If the launcher does not answer within
// kUnansweredMax, the process ends.
class StopSignals {
 public:
  static constexpr std::chrono::seconds kUnansweredMax{85};  // longer than the launcher allows for a last snapshot

  // `launcher` outlives this object. If it is null, a stop signal from any sender counts.
  explicit StopSignals(const EventWriter* launcher = nullptr);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Returns after a signal, after Notify, or after `timeout_ms` (negative: no limit).
  void Wait(int timeout_ms);
  void Notify();
  // Reads pending signals without waiting. Returns the first stop signal that counted, or 0 if there was none. In a
  // process started by a launcher, call it about every kBeatMs.
  int stop_signal();
  // Counts this stop signal, as if it had arrived.
  void Raise(int signal);
  int stop_count() const { return stop_count_; }
  // The descriptor of signals, for callers that poll it together with other descriptors.
  int signal_fd() const { return signal_fd_; }

 private:
  struct Unanswered {
    int signal;
    std::chrono::steady_clock::time_point until;
  };
  void Take(int signal, int sender);

  const EventWriter* const launcher_;  // null: no launcher
  std::optional<Unanswered> unanswered_;
  int signal_fd_, event_fd_;
  int stop_signal_ = 0, stop_count_ = 0;
};

// Prints one line on stderr with the time of day. Any thread may call it. Print and Complain escape control bytes.
void Print(Severity severity, std::string_view text);
// Prints "PROGRAM: TEXT" on stderr: what is wrong with a call, or why the program ended.
void Complain(std::string_view program, std::string_view text);

// Returns the folder of the binary that this process runs.
std::string OwnFolder();

// Returns the exit code of a process that ended with `status`: 0 for ok, 2 for kInvalid and kUnsupported (the user must
// correct the call or the job file), otherwise 1.
int ExitCode(const Status& status);

}  // namespace capstan::cli
