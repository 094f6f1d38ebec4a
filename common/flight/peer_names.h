// PeerNames: the names of a transport's peers, learned from messages.
//
// Kind:   owned by the transport's thread.
// Limits: kNamesMax names of each kind. When there are more, all of that kind are forgotten and learned again.
// Why:    ids of peers and sessions may enter no file, and a reader wants names: "coordinator", "shard-1", "worker-0".
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>

#include "common/base/types.h"
#include "common/flight/flight_format.h"
#include "common/flight/message_facts.h"
#include "common/wire/message.h"

namespace capstan {

class PeerNames {
 public:
  static constexpr std::size_t kNamesMax = 8192;
  static constexpr std::string_view kUnnamed = "peer-";
  using Name = std::array<char, kFlightPeerBytesMax>;

  // Names a peer that this process connects to. `fallback`: the name if no message has named the endpoint.
  void Connected(PeerId peer, const std::string& endpoint, std::string_view fallback);
  // Learns from a message that was received from `from`.
  void Learn(PeerId from, const Header& header, const MessageFacts& facts);
  // Learns the names of sessions from a message of the coordinator, sent or received.
  void LearnSessions(const Header& header);
  // Returns the peer's name. `session`: of the peer, or 0. Without a name: kUnnamed and four characters.
  Name Of(PeerId peer, SessionId session = {});

 private:
  template <class Key>
  using Names = std::unordered_map<Key, Name>;

  template <class Key>
  static void Set(Names<Key>* names, const Key& key, std::string_view name);

  Names<PeerId> peers_;
  Names<SessionId> sessions_;
  Names<std::string> endpoints_;
};

// The name of a shard's lane, and of a shard as a peer.
std::string FlightNameOf(ShardIndex shard);
// The names of the coordinator's lane, and of the coordinator as a peer.
inline constexpr std::string_view kFlightCoordinator = "coordinator";

}  // namespace capstan
