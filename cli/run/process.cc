#include "cli/run/process.h"

#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <filesystem>

#include "common/base/utf8.h"

namespace capstan::cli {

std::string OwnFolder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

void PrepareProcess() {
  // Keeps glibc from returning freed blocks of up to 1 GiB to the kernel at once. Otherwise each large payload would
  // cause page faults again. Servers give back what stays free (FreeHeap).
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 16 << 20);
  signal(SIGPIPE, SIG_IGN);
}

void RaiseOpenFilesLimit() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);  // if this fails, the old limit stays, and reaching it is reported
}

StopSignals::StopSignals(const EventWriter* launcher)
    : launcher_(launcher != nullptr && launcher->launched() ? launcher : nullptr) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  // SIGHUP arrives when the terminal closes. A program started with nohup ignores it; blocking the signal
  // would undo that.
  struct sigaction on_hangup {};
  CAPSTAN_CHECK(sigaction(SIGHUP, nullptr, &on_hangup) == 0);
  if (on_hangup.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);
  sigaddset(&set, SIGCHLD);
  if (launcher_ != nullptr) sigaddset(&set, kToldToStop);
  CAPSTAN_CHECK(sigprocmask(SIG_BLOCK, &set, nullptr) == 0);
  signal_fd_ = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  event_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  CAPSTAN_CHECK(signal_fd_ >= 0 && event_fd_ >= 0);
}

StopSignals::~StopSignals() {
  close(signal_fd_);
  close(event_fd_);
}

void StopSignals::Wait(int timeout_ms) {
  std::array<pollfd, 2> fds = {pollfd{signal_fd_, POLLIN, 0}, pollfd{event_fd_, POLLIN, 0}};
  poll(fds.data(), fds.size(), timeout_ms);
  std::uint64_t count = 0;
  if (read(event_fd_, &count, sizeof count) < 0) return;  // no notification
}

void StopSignals::Notify() {
  const std::uint64_t one = 1;
  if (write(event_fd_, &one, sizeof one) < 0) return;  // the counter is full: the reader wakes anyway
}

int StopSignals::stop_signal() {
  signalfd_siginfo info{};
  while (read(signal_fd_, &info, sizeof info) == sizeof info) {
    if (info.ssi_signo != SIGCHLD) Take(static_cast<int>(info.ssi_signo), static_cast<int>(info.ssi_pid));
  }
  if (unanswered_ && std::chrono::steady_clock::now() >= unanswered_->until) {
    Raise(unanswered_->signal);
    unanswered_.reset();
  }
  return stop_signal_;
}

void StopSignals::Take(int signal, int sender) {
  if (launcher_ == nullptr) return Raise(signal);
  if (signal == kToldToStop) {
    if (sender == getppid() && stop_count_ == 0) Raise(SIGTERM);
    return;
  }
  if (sender == getppid()) return Raise(signal);
  launcher_->StopAsked();
  if (!unanswered_) unanswered_ = {signal, std::chrono::steady_clock::now() + kUnansweredMax};
}

void StopSignals::Raise(int signal) {
  ++stop_count_;
  if (stop_signal_ == 0) stop_signal_ = signal;
}

void Print(Severity severity, std::string_view text) {
  timeval now{};
  gettimeofday(&now, nullptr);
  tm day{};
  localtime_r(&now.tv_sec, &day);
  std::array<char, 32> time{};
  std::snprintf(time.data(), time.size(), "%02d:%02d:%02d.%03d ", day.tm_hour, day.tm_min, day.tm_sec,
                static_cast<int>(now.tv_usec / 1000));
  const char* word = severity == Severity::kInfo ? "" : severity == Severity::kWarning ? "warning: " : "error: ";
  const std::string line = std::string(time.data()) + word + Printable(text) + "\n";
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) return;  // stderr has no reader
}

void Complain(std::string_view program, std::string_view text) {
  const std::string line = std::string(program) + ": " + Printable(text) + "\n";
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) return;  // stderr has no reader
}

int ExitCode(const Status& status) {
  if (status.ok()) return kExitDone;
  return status.code() == Code::kInvalid || status.code() == Code::kUnsupported ? kExitUsage : kExitFailed;
}

}  // namespace capstan::cli
