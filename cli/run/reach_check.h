// ReachCheck: whether this machine gets a connection to where each server says that it is reached.
//
// Kind:   owned by main's thread; its sockets never block.
// Limits: kPatience for an answer; one attempt per server at a time.
// Why:    a wrong address, or a firewall, is named when the server comes, and not by workers that wait for it.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace capstan::cli {

class ReachCheck {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kPatience{3};

  ReachCheck() = default;
  ~ReachCheck();
  ReachCheck(const ReachCheck&) = delete;
  ReachCheck& operator=(const ReachCheck&) = delete;

  // Tries `address` (host:port), unless it was the last one tried for `who`.
  void Try(const std::string& who, const std::string& address, Clock::time_point now);
  // A line for each that turned out to be out of reach since the last look.
  std::vector<std::string> Look(Clock::time_point now);

 private:
  struct Attempt {
    std::string address;
    int fd = -1;  // negative: it is over
    Clock::time_point deadline;
    std::string failure;  // to be said
  };

  std::map<std::string, Attempt> attempts_;  // by server
};

}  // namespace capstan::cli
