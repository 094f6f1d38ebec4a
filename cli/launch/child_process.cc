#include "cli/launch/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "cli/process.h"

namespace capstan::cli {
namespace {

constexpr std::size_t kEventBytesMax = 1 << 16;
constexpr std::streamoff kTailBytes = 16 << 10;

// In the child, between fork and exec: only calls that are allowed there.
[[noreturn]] void Become(const char* program, char* const* arguments, int parent, int log_fd, int events_fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it died before that
  setpgid(0, 0);                        // the terminal's Ctrl-C is the launcher's affair
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(log_fd, STDOUT_FILENO);
  dup2(log_fd, STDERR_FILENO);
  if (events_fd == ChildProcess::kEventsFd) {
    fcntl(events_fd, F_SETFD, 0);
  } else {
    dup2(events_fd, ChildProcess::kEventsFd);
  }
  execv(program, arguments);
  constexpr std::string_view kFailure = "cannot be run; is it beside the capstan binary?\n";
  if (write(STDERR_FILENO, program, std::strlen(program)) < 0 || write(STDERR_FILENO, ": ", 2) < 0 ||
      write(STDERR_FILENO, kFailure.data(), kFailure.size()) < 0) {
    _exit(126);
  }
  _exit(127);
}

}  // namespace

Result<ChildProcess> ChildProcess::Start(std::string name, const std::string& program,
                                         std::vector<std::string> arguments, std::string log) {
  const int log_fd = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log_fd < 0) return Unreachable("cannot write " + log + ": " + std::strerror(errno));
  std::array<int, 2> events{};
  if (pipe2(events.data(), O_CLOEXEC) != 0) {
    close(log_fd);
    return Unreachable(std::string("cannot start ") + name + ": " + std::strerror(errno));
  }
  arguments.insert(arguments.begin(), program);
  arguments.push_back("--events-fd");
  arguments.push_back(std::to_string(kEventsFd));
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  const int parent = getpid();
  const int pid = fork();
  if (pid == 0) Become(program.c_str(), pointers.data(), parent, log_fd, events[1]);
  const int error = errno;
  close(log_fd);
  close(events[1]);
  if (pid < 0) {
    close(events[0]);
    return Unreachable("cannot start " + name + ": " + std::strerror(error));
  }
  fcntl(events[0], F_SETFL, O_NONBLOCK);
  return ChildProcess(std::move(name), std::move(log), pid, events[0]);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : name_(std::move(other.name_)),
      log_(std::move(other.log_)),
      pid_(std::exchange(other.pid_, -1)),
      events_fd_(std::exchange(other.events_fd_, -1)),
      partial_(std::move(other.partial_)),
      wait_status_(other.wait_status_) {}

ChildProcess::~ChildProcess() {
  if (events_fd_ >= 0) close(events_fd_);
  if (pid_ < 0 || ended()) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::vector<Event> ChildProcess::TakeEvents() {
  std::vector<Event> events;
  std::array<char, 4096> bytes{};
  while (events_fd_ >= 0) {
    const ssize_t size = read(events_fd_, bytes.data(), bytes.size());
    if (size == 0) {  // it has closed its end
      close(std::exchange(events_fd_, -1));
    }
    if (size <= 0) break;
    partial_.append(bytes.data(), static_cast<std::size_t>(size));
    for (std::size_t end; (end = partial_.find('\n')) != partial_.npos; partial_.erase(0, end + 1)) {
      events.push_back(ParseEvent(partial_.substr(0, end)));
    }
    if (partial_.size() > kEventBytesMax) partial_.clear();
  }
  return events;
}

bool ChildProcess::Reap() {
  int status = 0;
  if (ended() || waitpid(pid_, &status, WNOHANG) != pid_) return false;
  wait_status_ = status;
  return true;
}

bool ChildProcess::was_killed() const {
  CAPSTAN_CHECK(ended());
  return WIFSIGNALED(*wait_status_);
}

bool ChildProcess::was_told_to_end() const {
  CAPSTAN_CHECK(ended());
  if (!WIFEXITED(*wait_status_)) return false;
  const int code = WEXITSTATUS(*wait_status_);
  return code == kExitSignal + SIGTERM || code == kExitSignal + SIGINT || code == kExitSignal + SIGHUP;
}

std::string ChildProcess::HowItEnded() const {
  CAPSTAN_CHECK(ended());
  if (WIFSIGNALED(*wait_status_)) {
    const int signal = WTERMSIG(*wait_status_);
    return "was killed by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
  }
  return "exited with code " + std::to_string(WEXITSTATUS(*wait_status_));
}

void ChildProcess::Signal(int signal) const {
  if (!ended()) kill(pid_, signal);
}

std::vector<std::string> ChildProcess::LastLines(std::size_t count) const {
  std::ifstream in(log_, std::ios::binary | std::ios::ate);
  const std::streamoff size = in ? static_cast<std::streamoff>(in.tellg()) : 0;
  in.seekg(std::max<std::streamoff>(0, size - kTailBytes));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(std::move(line));
  if (lines.size() > count) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(count));
  return lines;
}

}  // namespace capstan::cli
