// ChildProcess: a forked process that runs one function and exchanges lines of text with its parent.
//
// Kind:   owned by one thread. Fork while the parent has no other thread and no ZeroMQ context.
// Fails:  Receive: kTimeout, or kUnreachable if the other side has ended.
// Why:    in a benchmark, bytes must cross process borders as in production, and the processor time and memory of each
//         part must be measurable.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "common/base/status.h"

namespace capstan::bench {

// One end of a channel of text lines to another process. A line contains no line feed.
class Channel {
 public:
  Channel() = default;
  explicit Channel(int descriptor) : descriptor_(descriptor) {}
  Channel(Channel&& other) noexcept;
  Channel& operator=(Channel&& other) noexcept;
  ~Channel();

  // Returns false if the other side has ended.
  bool Send(const std::string& line);
  Result<std::string> Receive(std::chrono::seconds patience = std::chrono::seconds(60));

 private:
  int descriptor_ = -1;
  std::string received_;
};

struct ResidentBytes {
  std::uint64_t now = 0, peak = 0;
};

class ChildProcess {
 public:
  // Forks a child that runs `body` and ends when `body` returns. The child is killed when this object is destroyed or
  // the parent ends.
  static ChildProcess Fork(const std::function<Status(Channel& parent)>& body);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();

  Channel& channel() { return channel_; }
  // Returns the processor time of all the child's threads so far.
  double CpuSeconds() const;
  ResidentBytes Memory() const;

 private:
  ChildProcess(pid_t id, Channel channel) : id_(id), channel_(std::move(channel)) {}

  pid_t id_ = -1;
  Channel channel_;
};

}  // namespace capstan::bench
