#include "cli/run/reach_check.h"

#include <utility>

#include "common/base/host_port.h"

namespace capstan::cli {

void ReachCheck::Try(const std::string& who, const std::string& address, Clock::time_point now) {
  Attempt& attempt = attempts_[who];
  if (attempt.address == address || !IsHostPort(address)) return;
  attempt.address = address;
  attempt.deadline = now + kPatience;
  attempt.is_reported = false;
  attempt.connection.Begin(address);
}

std::vector<std::string> ReachCheck::Look(Clock::time_point now) {
  std::vector<std::string> lines;
  for (auto& [who, attempt] : attempts_) {
    if (attempt.connection.IsOpen()) {
      if (now < attempt.deadline) continue;
      attempt.connection.GiveUp("no answer in " + std::to_string(kPatience.count()) + " s");
    }
    if (attempt.connection.failure().empty() || std::exchange(attempt.is_reported, true)) continue;
    lines.push_back(who + " says that it is reached at " + attempt.address +
                    ", and this machine gets no connection there (" + attempt.connection.failure() +
                    "): check cluster.listen and cluster.advertise of that server, and the network and its firewall "
                    "between them");
  }
  return lines;
}

}  // namespace capstan::cli
