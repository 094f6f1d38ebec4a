// Lines: how long messages take in a simulated cluster on each line (from one process to another), and how many
// messages a line holds.
//
// Kind:   owned by the cluster.
// Why:    a line carries one message after the other, so a message that is sent again before it has arrived delays all
//         messages behind it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "common/base/types.h"

namespace capstan::sim {

class Lines {
 public:
  // `bytes_per_second`: of each line from one process to another; 0: messages arrive at once. `messages_max`: how many
  // messages each line holds.
  Lines(double bytes_per_second, std::size_t messages_max)
      : bytes_per_second_(bytes_per_second), messages_max_(messages_max) {}

  // Whether the line is full, with `queues` queues in front of it that hold as many messages each.
  bool Full(std::uint64_t from, std::uint64_t to, std::size_t queues) const {
    const auto line = lines_.find({from, to});
    return line != lines_.end() && line->second.messages / (1 + queues) >= messages_max_;
  }
  // Puts a message on the line. Returns when its last byte arrives, after all messages sent before it.
  Instant Send(std::uint64_t from, std::uint64_t to, std::size_t bytes, Instant now) {
    Line& line = lines_[{from, to}];
    ++line.messages;
    if (bytes_per_second_ <= 0) return now;
    const auto takes = static_cast<std::int64_t>(static_cast<double>(bytes) * 1e9 / bytes_per_second_);
    line.free_at = std::max(line.free_at, now) + Instant(takes);
    return line.free_at;
  }
  // Returns `at` or, if later, the time returned before for the line, so that its messages arrive in order.
  Instant Behind(std::uint64_t from, std::uint64_t to, Instant at) {
    Line& line = lines_[{from, to}];
    return line.newest_at = std::max(line.newest_at, at);
  }
  // For messages whose payload is left with its sender. Returns `at` or, if later, the time returned before for the
  // line: one that waits for its receiver keeps those behind it, even if the receiver goes on earlier than it was to.
  Instant HeldUntil(std::uint64_t from, std::uint64_t to, Instant at) {
    Line& line = lines_[{from, to}];
    return line.held_until = std::max(line.held_until, at);
  }
  // Call when a message has left the line.
  void Arrived(std::uint64_t from, std::uint64_t to) {
    const auto line = lines_.find({from, to});
    if (line != lines_.end() && line->second.messages > 0) --line->second.messages;
  }
  // Call when a process dies: its lines become empty.
  void Forget(std::uint64_t node) {
    std::erase_if(lines_, [node](const auto& line) { return line.first.first == node || line.first.second == node; });
  }

 private:
  struct Line {
    Instant free_at{};         // when the last byte sent has left it
    Instant newest_at{};       // when the newest message arrives
    Instant held_until{};      // when messages that wait for the receiver go on
    std::size_t messages = 0;  // sent, and not yet taken
  };

  const double bytes_per_second_;
  const std::size_t messages_max_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Line> lines_;  // by sender and receiver
};

}  // namespace capstan::sim
