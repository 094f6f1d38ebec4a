#include "cli/run/flight_recording.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "cli/run/process.h"

namespace capstan::cli {
namespace {

constexpr std::array kCrashes = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
constexpr int kLooks = 100, kBetweenLooksMs = 10;

// A signal handler finds these only as static objects.
std::atomic<FlightRecorder*> crash_recorder{nullptr};
std::atomic<pid_t> crash_writer{0};  // the thread that crashed first
std::atomic<bool> crash_written{false};
std::array<struct sigaction, kCrashes.size()> actions_before;

sigset_t FlightSignalSet() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, kFlightSignal);
  return set;
}

// Asks up to kLooks times, for about a second. Returns whether `done` has said so. Safe in a signal handler.
template <class Done>
bool WaitUntil(const Done& done) {
  for (int look = 0; look < kLooks; ++look) {
    if (done()) return true;
    poll(nullptr, 0, kBetweenLooksMs);
  }
  return done();
}

// Writes the file, and raises the signal again for the action that was there before. That action may end the process,
// so a second thread that crashes waits until the first one has written.
void OnCrash(int signal) {
  pid_t writer = 0;
  const pid_t self = gettid();
  if (crash_writer.compare_exchange_strong(writer, self)) {
    FlightRecorder* const recorder = crash_recorder.exchange(nullptr);
    if (recorder != nullptr) WaitUntil([&] { return recorder->Write(FlightReason::kCrash, {}, signal); });
    crash_written.store(true);
  } else if (writer != self) {
    WaitUntil([] { return crash_written.load(); });
  }
  for (std::size_t i = 0; i < kCrashes.size(); ++i) {
    if (kCrashes[i] == signal) sigaction(signal, &actions_before[i], nullptr);
  }
  raise(signal);  // blocked until this handler returns
}

}  // namespace

void BlockFlightSignal() {
  const sigset_t set = FlightSignalSet();
  CAPSTAN_CHECK(sigprocmask(SIG_BLOCK, &set, nullptr) == 0);
}

FlightRecording::FlightRecording(const std::string& process, const std::string& folder) {
  if (folder.empty()) return;
  recorder_ = std::make_unique<FlightRecorder>(process);
  if (const Status status = recorder_->OpenFile(folder); !status.ok()) {
    Print(Severity::kWarning, "this process keeps no flight recording: " + status.message());
    recorder_.reset();
    return;
  }
  const sigset_t set = FlightSignalSet();
  signal_fd_ = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  stop_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  CAPSTAN_CHECK(signal_fd_ >= 0 && stop_fd_ >= 0);
  thread_ = std::thread([this] { Serve(); });
  crash_recorder.store(recorder_.get());
  for (std::size_t i = 0; i < kCrashes.size(); ++i) {
    struct sigaction action {};
    action.sa_handler = OnCrash;
    sigaction(kCrashes[i], &action, &actions_before[i]);
  }
}

FlightRecording::~FlightRecording() {
  if (!thread_.joinable()) return;
  if (crash_recorder.exchange(nullptr) != nullptr) {
    for (std::size_t i = 0; i < kCrashes.size(); ++i) sigaction(kCrashes[i], &actions_before[i], nullptr);
  }
  const std::uint64_t one = 1;
  CAPSTAN_CHECK(write(stop_fd_, &one, sizeof one) == sizeof one);
  thread_.join();
  close(signal_fd_);
  close(stop_fd_);
}

void FlightRecording::Serve() const {
  pthread_setname_np(pthread_self(), "capstan-flight");
  while (true) {
    std::array<pollfd, 2> fds = {pollfd{signal_fd_, POLLIN, 0}, pollfd{stop_fd_, POLLIN, 0}};
    if (poll(fds.data(), fds.size(), -1) < 0) continue;  // interrupted
    if (fds[1].revents != 0) return;
    signalfd_siginfo info{};
    while (read(signal_fd_, &info, sizeof info) == sizeof info) {
      if (!ends_ && crash_writer.load() == 0) recorder_->Write(FlightReason::kRequest);
    }
  }
}

void FlightRecording::WriteFailure(const Status& status) {
  ends_ = true;
  if (recorder_ && !WaitUntil([&] { return recorder_->Write(FlightReason::kFailure, status.message()); })) {
    Print(Severity::kWarning, "the flight recording of this failure could not be written");
  }
}

}  // namespace capstan::cli
