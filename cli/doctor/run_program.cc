#include "cli/doctor/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "common/base/utf8.h"

namespace capstan::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLookMs = 2;  // so often a program that has closed its output is asked whether it has ended

// Starts the program with its output in `out_fd`. Returns 0, or an errno.
int Start(const std::vector<std::string>& words, int out_fd, pid_t* pid) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out_fd, STDERR_FILENO);
  const int error = posix_spawnp(pid, words.front().c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

// Reads until the program closes its output. Returns nothing if the time is up before that.
std::optional<std::string> ReadAll(int fd, Clock::time_point deadline) {
  std::string output;
  std::array<char, 4096> bytes{};
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd wanted{fd, POLLIN, 0};
    const int ready = left <= 0 ? 0 : poll(&wanted, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    const ssize_t got = read(fd, bytes.data(), bytes.size());
    if (got <= 0) return output;
    output.append(bytes.data(), std::min(static_cast<std::size_t>(got), kProgramOutputMax - output.size()));
  }
}

// Waits until the program ends, and returns its state. Kills it at the deadline and returns nothing.
std::optional<int> WaitForEnd(pid_t pid, Clock::time_point deadline) {
  int state = 0;
  for (;;) {
    const pid_t ended = waitpid(pid, &state, WNOHANG);
    if (ended == pid) return state;
    if (ended < 0 && errno != EINTR) return std::nullopt;
    if (Clock::now() >= deadline) break;
    poll(nullptr, 0, kLookMs);
  }
  kill(pid, SIGKILL);
  while (waitpid(pid, &state, 0) < 0 && errno == EINTR) continue;
  return std::nullopt;
}

}  // namespace

Result<std::string> RunForOutput(const std::vector<std::string>& words, std::chrono::seconds time) {
  std::array<int, 2> pipe_fds{};
  if (pipe2(pipe_fds.data(), O_CLOEXEC) != 0) return Unreachable(std::strerror(errno));
  pid_t pid = -1;
  const int error = Start(words, pipe_fds[1], &pid);
  close(pipe_fds[1]);
  if (error != 0) {
    close(pipe_fds[0]);
    return Invalid("there is no program " + words.front() + " to run: " + std::strerror(error));
  }
  const Clock::time_point deadline = Clock::now() + time;
  std::optional<std::string> output = ReadAll(pipe_fds[0], deadline);
  close(pipe_fds[0]);
  const std::optional<int> state = WaitForEnd(pid, deadline);
  if (!output || !state) return Timeout(words.front() + " has not ended within " + std::to_string(time.count()) + " s");
  if (*state == 0) return *std::move(output);
  return Refused(words.front() + " failed: " + Excerpt(*output, kLongExcerptBytesMax));
}

}  // namespace capstan::cli
