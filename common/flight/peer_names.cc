#include "common/flight/peer_names.h"

#include <functional>

#include "common/flight/flight_text.h"
#include "common/wire/messages.h"

namespace capstan {

std::string FlightNameOf(ShardIndex shard) { return "shard-" + std::to_string(shard); }

template <class Key>
void PeerNames::Set(Names<Key>* names, const Key& key, std::string_view name) {
  if (names->size() >= kNamesMax && !names->contains(key)) names->clear();
  PutShortName(name, &(*names)[key]);
}

void PeerNames::Connected(PeerId peer, const std::string& endpoint, std::string_view fallback) {
  const auto known = endpoints_.find(endpoint);
  Set(&peers_, peer, known == endpoints_.end() ? fallback : TextIn(known->second));
}

void PeerNames::Learn(PeerId from, const Header& header, const MessageFacts& facts) {
  if (facts.shard) Set(&peers_, from, FlightNameOf(*facts.shard));
  if (const auto* join = header.As<Join>()) Set(&peers_, from, join->worker);
  if (const auto* view = header.As<View>()) {
    for (const ShardAddress& shard : view->shards) Set(&endpoints_, shard.endpoint, FlightNameOf(shard.shard));
  }
  LearnSessions(header);
}

void PeerNames::LearnSessions(const Header& header) {
  if (const auto* live = header.As<LiveSessions>()) {
    for (const LiveSession& session : live->sessions) Set(&sessions_, session.session, session.worker);
    for (const SessionId ended : live->ended) sessions_.erase(ended);
  }
}

PeerNames::Name PeerNames::Of(PeerId peer, SessionId session) {
  if (const auto known = peers_.find(peer); known != peers_.end()) return known->second;
  if (const auto known = sessions_.find(session); session.value != 0 && known != sessions_.end()) {
    Set(&peers_, peer, TextIn(known->second));
    return known->second;
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string name(kUnnamed);
  for (int i = 0; i < 4; ++i) name += kDigits[(peer.value * 0x9E3779B97F4A7C15U >> (48 + 4 * i)) & 15];
  Name place;
  PutText(name, &place);
  return place;
}

}  // namespace capstan
