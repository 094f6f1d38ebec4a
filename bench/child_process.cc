#include "bench/child_process.h"

#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <utility>

namespace capstan::bench {

Channel::Channel(Channel&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), received_(std::move(other.received_)) {}

Channel& Channel::operator=(Channel&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(received_, other.received_);
  return *this;
}

Channel::~Channel() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool Channel::Send(const std::string& line) {
  const std::string text = line + "\n";
  std::size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t count = send(descriptor_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) return false;
    sent += static_cast<std::size_t>(count);
  }
  return true;
}

Result<std::string> Channel::Receive(std::chrono::seconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    if (const std::size_t end = received_.find('\n'); end != received_.npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    pollfd waiting{descriptor_, POLLIN, 0};
    if (left <= 0 || poll(&waiting, 1, static_cast<int>(left)) == 0) {
      return Timeout("a process of the benchmark did not answer within " + std::to_string(patience.count()) + " s");
    }
    std::array<char, 4096> bytes;
    const ssize_t count = recv(descriptor_, bytes.data(), bytes.size(), 0);
    if (count <= 0) return Unreachable("a process of the benchmark has ended");
    received_.append(bytes.data(), static_cast<std::size_t>(count));
  }
}

ChildProcess ChildProcess::Fork(const std::function<Status(Channel& parent)>& body) {
  std::array<int, 2> ends{};
  CAPSTAN_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t id = fork();
  CAPSTAN_CHECK(id >= 0);
  if (id != 0) {
    close(ends[1]);
    return {id, Channel(ends[0])};
  }
  close(ends[0]);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  // The allocator settings of capstan's own programs: freed large blocks stay here, which saves page faults.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 16 << 20);
  Channel channel(ends[1]);
  const Status status = body(channel);
  if (!status.ok()) std::fprintf(stderr, "benchmark: %s\n", status.message().c_str());
  _exit(status.ok() ? 0 : 1);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : id_(std::exchange(other.id_, -1)), channel_(std::move(other.channel_)) {}

ChildProcess::~ChildProcess() {
  if (id_ < 0) return;
  kill(id_, SIGKILL);
  waitpid(id_, nullptr, 0);
}

double ChildProcess::CpuSeconds() const {
  clockid_t clock = 0;
  timespec time{};
  if (clock_getcpuclockid(id_, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0.0;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

ResidentBytes ChildProcess::Memory() const {
  std::ifstream file("/proc/" + std::to_string(id_) + "/status");
  ResidentBytes bytes;
  for (std::string key; file >> key;) {
    if (key == "VmRSS:") file >> bytes.now;
    if (key == "VmHWM:") file >> bytes.peak;
  }
  return {bytes.now << 10, bytes.peak << 10};  // /proc counts in KiB
}

}  // namespace capstan::bench
