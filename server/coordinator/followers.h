// Followers: readers of a job that have asked for its state recently.
//
// Kind:   owned by the Coordinator.
// Limits: at most kFollowersMax readers are remembered; the job does not wait for others at its end.
// Why:    the servers end with the job, so a reader that evaluates every version could miss the last one. The
//         coordinator therefore waits for readers (reader_wait.h). In a finished job silent readers are not forgotten,
//         because writing the last snapshot and the final weights may take longer than a lease.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "common/base/types.h"

namespace capstan::server {

class Followers {
 public:
  static constexpr std::size_t kFollowersMax = 1024;

  // `nonce`: a random number that the reader drew at its start.
  void NoteMessage(std::uint64_t nonce, Instant now) {
    const bool is_new = !followers_.contains(nonce);
    if (is_new && followers_.size() == kFollowersMax) return;
    followers_[nonce] = now;
    arrivals_ += is_new ? 1 : 0;
  }
  // This process was paused, and has not read what readers sent meanwhile.
  void ForgivePause(Instant pause, Instant now) {
    for (auto& [nonce, last_message] : followers_) last_message = std::min(last_message + pause, now);
  }
  void Left(std::uint64_t nonce) { followers_.erase(nonce); }
  // Forgets readers that were last heard before `time`.
  void ForgetBefore(Instant time) {
    std::erase_if(followers_, [&](const auto& follower) { return follower.second < time; });
  }
  std::size_t size() const { return followers_.size(); }
  // How often a reader was remembered that was not remembered before.
  std::uint64_t arrivals() const { return arrivals_; }

 private:
  std::map<std::uint64_t, Instant> followers_;  // by nonce: when the reader's last message arrived
  std::uint64_t arrivals_ = 0;
};

}  // namespace capstan::server
