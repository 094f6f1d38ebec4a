// ReachCheck: whether this machine can connect to the address that each server advertises.
//
// Kind:   owned by main's thread; its sockets do not block.
// Limits: kPatience for one attempt; one attempt per server at a time.
// Why:    a wrong address or a firewall is reported when the server joins, not only when workers fail to reach it.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "cli/run/connect_attempt.h"

namespace capstan::cli {

class ReachCheck {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kPatience{3};

  // Begins to connect to `address` (host:port), unless it was the last address tried for `who`.
  void Try(const std::string& who, const std::string& address, Clock::time_point now);
  // Returns one line for each address found unreachable since the last call.
  std::vector<std::string> Look(Clock::time_point now);

 private:
  struct Attempt {
    std::string address;
    ConnectAttempt connection;
    Clock::time_point deadline;
    bool is_reported = false;  // whether Look has returned its failure
  };

  std::map<std::string, Attempt> attempts_;  // by server
};

}  // namespace capstan::cli
