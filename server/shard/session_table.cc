#include "server/shard/session_table.h"

#include <algorithm>

#include "common/wire/messages/limits.h"

namespace capstan::server {

bool MayPush(const LiveSession& session, Node node) {
  return std::any_of(session.slots.begin(), session.slots.end(),
                     [&](const SlotRange& range) { return range.begin <= node.begin && node.end <= range.end; });
}

// A list that changes an older one than this table's has all changes since that one, so it brings the table up to date,
// too.
bool SessionTable::Take(const LiveSessions& list) {
  const bool whole = list.base == 0;
  if (list.term < term_ || (list.term > term_ && !whole)) return false;
  if (list.term == term_ && (list.sequence <= sequence_ || list.base > sequence_)) return false;
  for (SessionId ended : list.ended) sessions_.erase(ended);  // they have ended, whatever else the list says
  const auto is_new = [&](const LiveSession& session) { return whole || !sessions_.contains(session.session); };
  const auto added = std::count_if(list.sessions.begin(), list.sessions.end(), is_new);
  if ((whole ? 0 : sessions_.size()) + static_cast<std::size_t>(added) > kWorkersMax) return false;
  if (whole) sessions_.clear();
  for (const LiveSession& session : list.sessions) {
    if (session.session.value != 0) sessions_.insert_or_assign(session.session, session);
  }
  term_ = list.term;
  sequence_ = list.sequence;
  return true;
}

std::vector<LiveSession> SessionTable::sessions() const {
  std::vector<LiveSession> all;
  for (const auto& [id, session] : sessions_) all.push_back(session);
  std::sort(all.begin(), all.end(), [](const LiveSession& a, const LiveSession& b) { return a.session < b.session; });
  return all;
}

const LiveSession* SessionTable::Find(SessionId session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? nullptr : &found->second;
}

std::string SessionTable::NameOf(SessionId session) const {
  const LiveSession* found = Find(session);
  return found == nullptr ? "a worker that has left" : "\"" + found->worker + "\"";
}

}  // namespace capstan::server
