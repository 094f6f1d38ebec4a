// PayloadAccount: how many payload bytes a simulated job sent, and how many it had to send.
//
// Kind:   owned by the cluster.
// Why:    on a slow line a message that is sent again needlessly costs as much time as the first copy.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>

namespace capstan::sim {

class PayloadAccount {
 public:
  // Counts a message that was sent. `message`: hash of its header. A job has to send each message to a receiver once.
  void Sent(std::uint64_t to, std::uint64_t message, std::uint64_t bytes) {
    sent_ += bytes;
    if (messages_.insert({to, message}).second) needed_ += bytes;
  }
  // Counts a message that has to be sent again, because it never arrived or its receiver died.
  void Lost(std::uint64_t bytes) { needed_ += bytes; }

  // Returns what is wrong; empty: the job sent at most `factor` times the bytes that it had to send.
  std::string Judge(double factor) const {
    if (static_cast<double>(sent_) <= factor * static_cast<double>(needed_)) return "";
    return std::to_string(sent_) + " bytes of payload were sent, and " + std::to_string(needed_) + " were needed";
  }
  std::uint64_t sent() const { return sent_; }
  std::uint64_t needed() const { return needed_; }

 private:
  std::set<std::pair<std::uint64_t, std::uint64_t>> messages_;  // receiver, hash of the header
  std::uint64_t sent_ = 0, needed_ = 0;
};

}  // namespace capstan::sim
