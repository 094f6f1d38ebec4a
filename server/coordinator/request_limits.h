// RequestLimits: how many requests of one kind are answered: of each peer, and of all peers together.
//
// Kind:   a value; part of the Coordinator.
// Limits: kPeersMax peers are remembered, and forgotten when they have been quiet. For peers beyond that, only the limit
//         of all peers counts.
// Why:    a request costs its sender less than the answer costs the coordinator, and the job waits meanwhile.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "common/base/token_bucket.h"
#include "common/base/types.h"

namespace capstan::server {

class RequestLimits {
 public:
  static constexpr std::size_t kPeersMax = 16384;

  // kRefuse: one answer says that the request was not carried out. kIgnore: there was such an answer within the last
  // second.
  enum class Verdict : std::uint8_t { kCarryOut, kRefuse, kIgnore };

  RequestLimits(TokenBucket::Rate each, TokenBucket::Rate all, Instant now) : each_(each), all_(all, now) {}

  Verdict Take(PeerId from, Instant now);
  std::size_t peers() const { return peers_.size(); }

 private:
  struct Peer {
    TokenBucket bucket;
    std::optional<Instant> refused;
  };
  Peer* Find(PeerId from, Instant now);

  TokenBucket::Rate each_;
  TokenBucket all_;
  std::unordered_map<PeerId, Peer> peers_;
  std::optional<Instant> forgot_;  // when quiet peers were last forgotten because there were too many
  std::optional<Instant> refused_;  // when a peer that is not remembered was last refused
};

}  // namespace capstan::server
