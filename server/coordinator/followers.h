// Followers: programs that read a job without taking part in it, and asked for it of late.
//
// Kind:   owned by the Coordinator.
// Limits: kFollowersMax are remembered; nobody waits for those beyond.
// Why:    the servers of a job end with it. A program that evaluates every version would lose the race for
//         the last one. None is forgotten while the last snapshot and the final weights are written: that may take longer
//         than a lease, and a worker that reads the last version hears of the job's end only after it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "common/base/types.h"

namespace capstan::server {

class Followers {
 public:
  static constexpr std::size_t kFollowersMax = 1024;

  // `nonce`: of one life of it.
  void Heard(std::uint64_t nonce, Instant now) {
    if (followers_.size() < kFollowersMax || followers_.contains(nonce)) followers_[nonce] = now;
  }
  void Left(std::uint64_t nonce) { followers_.erase(nonce); }
  // Forgets those who were last heard before.
  void ForgetBefore(Instant time) {
    std::erase_if(followers_, [&](const auto& follower) { return follower.second < time; });
  }
  std::size_t size() const { return followers_.size(); }

 private:
  std::map<std::uint64_t, Instant> followers_;  // when each was last heard
};

}  // namespace capstan::server
