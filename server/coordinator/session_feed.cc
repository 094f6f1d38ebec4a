#include "server/coordinator/session_feed.h"

#include <algorithm>
#include <iterator>

#include "server/coordinator/shard_table.h"

namespace capstan::server {

namespace {

using Slots = std::vector<SlotIndex>;

Slots Union(const Slots& a, const Slots& b) {
  Slots all;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
  return all;
}

Slots Difference(const Slots& a, const Slots& b) {
  Slots rest;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(rest));
  return rest;
}

std::vector<SlotRange> RangesOf(const Slots& slots) {
  std::vector<SlotRange> ranges;
  for (SlotIndex slot : slots) {
    if (ranges.empty() || ranges.back().end != slot) ranges.push_back({slot, slot});
    ++ranges.back().end;
  }
  return ranges;
}

}  // namespace

// ---- what sessions may push ----------------------------------------------------------------------------------------

void SessionFeed::Update(const std::vector<Member>& members, const Moment& moment) {
  turn_ += members.size();
  any_earlier_ = false;
  std::map<SessionId, Rights> before = std::exchange(rights_, {});
  for (const Member& member : members) {
    Rights rights = before.contains(member.session) && moment.runs
                        ? Renewed(std::move(before.at(member.session)), member, moment)
                        : Rights{member.slots, {}, moment.view, std::nullopt};
    any_earlier_ = any_earlier_ || (moment.step && !rights.earlier.empty());
    Set({member.session, member.worker, RangesOf(Union(rights.now, rights.earlier)), member.founder});
    rights_.emplace(member.session, std::move(rights));
  }
  std::vector<SessionId> gone;
  for (const auto& [session, entry] : entries_) {
    if (!rights_.contains(session)) gone.push_back(session);
  }
  for (SessionId session : gone) End(session);
  updated_ = moment.view;
}

SessionFeed::Rights SessionFeed::Renewed(Rights rights, const Member& member, const Moment& moment) {
  if (rights.now != member.slots) {
    rights.earlier = Difference(Union(rights.earlier, rights.now), member.slots);
    rights.now = member.slots;
    rights.view = moment.view;
    rights.seen_in.reset();
  }
  if (rights.earlier.empty() || !moment.step) return rights;
  if (!rights.seen_in && member.in_generation && member.view_sequence >= rights.view) rights.seen_in = *moment.step;
  if (rights.seen_in && *moment.step > *rights.seen_in) rights.earlier.clear();
  return rights;
}

void SessionFeed::Set(LiveSession session) {
  Entry& entry = entries_[session.session];
  if (entry.changed != 0 && entry.session == session) return;
  entry.session = std::move(session);
  entry.changed = ++sequence_;
}

void SessionFeed::End(SessionId session) {
  entries_.erase(session);
  ended_.emplace_back(++sequence_, session);
  if (ended_.size() <= kEndedMax) return;
  forgotten_ = ended_.front().first;
  ended_.pop_front();
}

// ---- the shards ----------------------------------------------------------------------------------------------------

LiveSessions SessionFeed::MakeList(std::uint64_t base) const {
  LiveSessions list{term_, sequence_, base < forgotten_ ? 0 : base, {}, {}};
  for (const auto& [session, entry] : entries_) {
    if (entry.changed > list.base) list.sessions.push_back(entry.session);
  }
  for (const auto& [sequence, session] : ended_) {
    if (list.base != 0 && sequence > list.base) list.ended.push_back(session);
  }
  return list;
}

void SessionFeed::Send(Term term, const ShardTable& shards, Outbox* out) {
  turn_ += shards_.size();
  if (term != term_) {  // the shards have no list of this term yet
    term_ = term;
    std::fill(shards_.begin(), shards_.end(), Told{});
  }
  std::map<std::uint64_t, LiveSessions> lists;  // by the list that they change
  for (ShardIndex shard = 0; shard < shards_.size(); ++shard) {
    Told& told = shards_[shard];
    if (told.sent == sequence_ || shards[shard].peer.value == 0) continue;
    auto list = lists.find(told.sent);
    if (list == lists.end()) list = lists.emplace(told.sent, MakeList(told.sent)).first;
    out->Send(shards[shard].peer, list->second);
    told.sent = sequence_;
  }
  sent_ = sequence_;
}

void SessionFeed::NoteHello(ShardIndex shard, std::uint64_t sequence, bool is_new) {
  Told& told = shards_[shard];
  if (is_new || sequence < told.before_ping) told = {is_new ? 0 : sequence, 0};
}

}  // namespace capstan::server
