#include "server/coordinator/request_limits.h"

namespace capstan::server {

namespace {

constexpr Instant kRefuseEvery = std::chrono::seconds(1);
constexpr Instant kForgetEvery = std::chrono::seconds(1);

}  // namespace

RequestLimits::Peer* RequestLimits::Find(PeerId from, Instant now) {
  if (const auto known = peers_.find(from); known != peers_.end()) return &known->second;
  if (peers_.size() >= kPeersMax) {
    if (forgot_ && now - *forgot_ < kForgetEvery) return nullptr;
    forgot_ = now;
    std::erase_if(peers_, [now](const auto& entry) { return entry.second.bucket.IsFull(now); });
    if (peers_.size() >= kPeersMax) return nullptr;
  }
  return &peers_.emplace(from, Peer{TokenBucket(each_, now), std::nullopt}).first->second;
}

RequestLimits::Verdict RequestLimits::Take(PeerId from, Instant now) {
  Peer* const peer = Find(from, now);
  if ((peer == nullptr || peer->bucket.Take(now)) && all_.Take(now)) return Verdict::kCarryOut;
  std::optional<Instant>& refused = peer == nullptr ? refused_ : peer->refused;
  if (refused && now - *refused < kRefuseEvery) return Verdict::kIgnore;
  refused = now;
  return Verdict::kRefuse;
}

}  // namespace capstan::server
