// PrepareProcess, StopSignals, Say: what the main function of every binary of ours does first, and how it talks.
//
// Kind:   StopSignals is owned by main's thread, Notify may be called from any.
// Why:    signals are read like messages: nothing ever runs inside a handler.
#pragma once

#include <signal.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "cli/run/events.h"
#include "common/base/status.h"
#include "common/wire/actor.h"

namespace capstan::cli {

// From a launcher to a process that it has sent SIGTERM and that reports another sender's: the system keeps one pending
// signal of a kind, and the launcher's may have been lost behind the other. Nothing to a process that has had it: the
// system hands a pending SIGTERM out first, which has the lower number.
inline const int kToldToStop = SIGRTMIN;
inline constexpr int kExitDone = 0, kExitFailed = 1, kExitUsage = 2, kExitSignal = 128;  // the last: plus its number

// Allocator settings for large messages, and SIGPIPE ignored. Before any thread is started.
void PrepareProcess();

// As many open files as the process may have: every file of tokens stays open.
void RaiseOpenFilesLimit();

// From its creation on SIGINT, SIGTERM and SIGHUP, unless that was ignored before, (and SIGCHLD) do nothing but make
// Wait return. Create it before any thread.
//
// A process that a launcher started ends when its launcher says so. A stop signal from anybody else is reported to the
// launcher, who answers it: where all processes of a job get SIGTERM at once, as from systemd, servers and workers stay
// until the coordinator has taken its last snapshot. A launcher that does not answer in kUnansweredMax is not waited for.
class StopSignals {
 public:
  static constexpr std::chrono::seconds kUnansweredMax{85};  // more than the launcher's time for a last snapshot

  // `launcher` outlives this. A signal counts wherever it comes from when there is none.
  explicit StopSignals(const EventWriter* launcher = nullptr);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Returns when a signal came, Notify was called, or after `timeout_ms` (negative: never).
  void Wait(int timeout_ms);
  void Notify();
  // Reads what has come, without waiting. The first stop signal, or 0. In a process of a launcher called at least every
  // kBeatMs.
  int stop_signal();
  // As if this signal had come.
  void Raise(int signal);
  int stop_count() const { return stop_count_; }
  // For those who wait for more than this.
  int signal_fd() const { return signal_fd_; }

 private:
  struct Unanswered {
    int signal;
    std::chrono::steady_clock::time_point until;
  };
  void Take(int signal, int sender);

  const EventWriter* const launcher_;  // null: none
  std::optional<Unanswered> unanswered_;
  int signal_fd_, event_fd_;
  int stop_signal_ = 0, stop_count_ = 0;
};

// One line on stderr with the time of day; any thread. Here and in Complain, control bytes of files and peers are escaped.
void Say(Severity severity, std::string_view text);
// "PROGRAM: TEXT" on stderr: what is wrong with a call, or why it ended.
void Complain(std::string_view program, std::string_view text);

// The folder that this program lies in.
std::string OwnFolder();

// What the exit code of a process is that ended with `status`: 2 when the call or the job file is to be mended.
int ExitCode(const Status& status);

}  // namespace capstan::cli
