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

#include "cli/run/process.h"
#include "cli/run/process_log.h"

namespace capstan::cli {
namespace {

constexpr std::streamoff kTailBytes = 16 << 10;

// All that the child uses between fork and exec. It is prepared before the fork, because few functions are allowed
// then.
struct Image {
  const char* program;
  char* const* arguments;
  char* const* environment;
  int parent;
  int output_fd;
  int events_fd;  // negative: the child sends no events
};

[[noreturn]] void Become(const Image& image) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != image.parent) _exit(127);  // the parent died before prctl
  setpgid(0, 0);                              // so that the terminal's Ctrl-C reaches only the launcher
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(image.output_fd, STDOUT_FILENO);
  dup2(image.output_fd, STDERR_FILENO);
  if (image.events_fd == ChildProcess::kEventsFd) {
    fcntl(image.events_fd, F_SETFD, 0);
  } else if (image.events_fd >= 0) {
    dup2(image.events_fd, ChildProcess::kEventsFd);
  } else {
    signal(SIGPIPE, SIG_DFL);  // the launcher ignores it; a user's program starts as it would from a shell
  }
  execve(image.program, image.arguments, image.environment);
  const std::string_view failure =
      image.events_fd >= 0 ? "cannot be run; is it beside the capstan binary?\n" : "cannot be run\n";
  if (write(STDERR_FILENO, image.program, std::strlen(image.program)) < 0 || write(STDERR_FILENO, ": ", 2) < 0 ||
      write(STDERR_FILENO, failure.data(), failure.size()) < 0) {
    _exit(126);
  }
  _exit(127);
}

std::vector<char*> PointersTo(std::vector<std::string>* texts) {
  std::vector<char*> pointers;
  for (std::string& text : *texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Result<ChildProcess> ChildProcess::Start(const ProgramCall& call) {
  const int log_fd = open(call.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (log_fd < 0) return Unreachable("cannot write " + call.log + ": " + std::strerror(errno));
  std::array<int, 2> pipe{};
  if (pipe2(pipe.data(), O_CLOEXEC) != 0) {
    close(log_fd);
    return Unreachable("cannot start " + call.name + ": " + std::strerror(errno));
  }
  const bool own = call.kind == ProgramKind::kOwn;
  std::vector<std::string> arguments = call.arguments, environment = call.environment;
  arguments.insert(arguments.begin(), call.path);
  if (!own) arguments.insert(arguments.end(), {"--events-fd", std::to_string(kEventsFd)});
  const std::vector<char*> argument_pointers = PointersTo(&arguments), variables = PointersTo(&environment);
  const Image image{call.path.c_str(), argument_pointers.data(), own ? variables.data() : environ,
                    getpid(),          own ? pipe[1] : log_fd,   own ? -1 : pipe[1]};
  const int pid = fork();
  if (pid == 0) Become(image);
  const int error = errno;
  close(pipe[1]);
  if (!own || pid < 0) close(log_fd);
  if (pid < 0) {
    close(pipe[0]);
    return Unreachable("cannot start " + call.name + ": " + std::strerror(error));
  }
  setpgid(pid, pid);  // the child does the same, because either may be first
  fcntl(pipe[0], F_SETFL, O_NONBLOCK);
  return ChildProcess(call, pid, pipe[0], own ? log_fd : -1);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : name_(std::move(other.name_)),
      log_(std::move(other.log_)),
      kind_(other.kind_),
      pid_(std::exchange(other.pid_, -1)),
      pipe_fd_(std::exchange(other.pipe_fd_, -1)),
      log_fd_(std::exchange(other.log_fd_, -1)),
      partial_(std::move(other.partial_)),
      output_(std::move(other.output_)),
      wait_status_(other.wait_status_) {}

ChildProcess::~ChildProcess() {
  if (pipe_fd_ >= 0) close(pipe_fd_);
  if (log_fd_ >= 0) close(log_fd_);
  if (pid_ < 0 || ended()) return;
  kill(target(), SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::vector<Event> ChildProcess::TakeEvents() {
  std::vector<Event> events;
  std::array<char, 4096> bytes{};
  while (pipe_fd_ >= 0) {
    const ssize_t size = read(pipe_fd_, bytes.data(), bytes.size());
    if (size == 0) {  // the process closed its end
      close(std::exchange(pipe_fd_, -1));
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

std::vector<std::string> ChildProcess::TakeOutput() {
  std::vector<std::string> lines;
  std::array<char, 4096> bytes{};
  for (std::size_t taken = 0; pipe_fd_ >= 0 && taken < kOutputBytes;) {
    const ssize_t size = read(pipe_fd_, bytes.data(), bytes.size());
    if (size == 0) close(std::exchange(pipe_fd_, -1));
    if (size <= 0) break;
    taken += static_cast<std::size_t>(size);
    const std::string_view piece(bytes.data(), static_cast<std::size_t>(size));
    // A log that cannot be written, as on a full disk, does not end the job: the terminal has the lines.
    [[maybe_unused]] const ssize_t written = write(log_fd_, piece.data(), piece.size());
    RotateLogIfLarge(log_, log_fd_);
    for (std::string& line : output_.Add(piece)) lines.push_back(std::move(line));
  }
  if (!ended()) return lines;
  if (std::string rest = output_.TakeRest(); !rest.empty()) lines.push_back(std::move(rest));
  return lines;
}

bool ChildProcess::Reap() {
  if (ended()) return false;
  siginfo_t end{};
  if (waitid(P_PID, static_cast<id_t>(pid_), &end, WEXITED | WNOHANG | WNOWAIT) != 0 || end.si_pid != pid_)
    return false;
  const bool failed = end.si_code != CLD_EXITED || end.si_status != 0;
  if (kind_ == ProgramKind::kOwn && failed) kill(target(), SIGKILL);  // before another process can get its id
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return false;
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
  if (!ended()) kill(target(), signal);
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
