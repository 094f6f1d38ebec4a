#include "server/coordinator/ranks.h"

#include "common/wire/messages/membership.h"
#include "server/coordinator/coordinator_text.h"

namespace capstan::server {

namespace {

const Worker* HolderOf(std::uint32_t rank, const Membership& members) {
  for (const auto& [session, worker] : members.workers()) {
    if (worker.rank == rank) return &worker;
  }
  return nullptr;
}

// Names a rank for people, who count ranks from 0. `rank` counts from 1, as in Join, where 0 means none.
std::string Named(std::uint32_t rank, SlotIndex of) {
  return "rank " + std::to_string(rank - 1) + " of " + std::to_string(of);
}

}  // namespace

Status Ranks::Check(const Join& join, SlotIndex slot_count, const Membership& members) const {
  const std::string who = "worker \"" + join.worker + "\"";
  if (join.rank == 0) {
    if (seen_.empty()) return {};
    const auto& [rank, seen] = *seen_.begin();
    return Refused(who + " has no rank, and \"" + seen.name + "\" has " + Named(rank, slot_count) +
                   "; in one job either every worker has one, or none has");
  }
  const std::string named = who + " is " + Named(join.rank, join.ranks);
  if (join.ranks != slot_count) {
    return Refused(named + ", and the job has " + Count(slot_count, "slot") + "; start " + std::to_string(slot_count) +
                   " ranks, or set job.slots = " + std::to_string(join.ranks));
  }
  if (join.rank > join.ranks) return Refused(named + "; ranks are from 0 to " + std::to_string(join.ranks - 1));
  if (const Worker* unranked = HolderOf(0, members); unranked != nullptr && unranked->name != join.worker) {
    return Refused(named + ", and \"" + unranked->name +
                   "\" has no rank; in one job either every worker has one, or none has");
  }
  const Worker* holder = HolderOf(join.rank, members);
  if (holder == nullptr || holder->name == join.worker) return {};
  return Refused(named + ", which \"" + holder->name + "\" is already; give this one another rank, or end the other");
}

void Ranks::NoteMessage(const Worker& worker, Instant now) {
  if (worker.rank != 0) seen_[worker.rank] = {worker.name, now};
}

std::string Ranks::Missing(SlotIndex slot_count, const Membership& members, Instant now) const {
  std::string names;
  std::size_t missing = 0;
  for (std::uint32_t rank = 1; in_use() && rank <= slot_count; ++rank) {
    if (HolderOf(rank, members) != nullptr || ++missing > kNamedMax) continue;
    const auto seen = seen_.find(rank);
    AddName(&names, Named(rank, slot_count) + (seen == seen_.end()
                                                   ? " (never seen)"
                                                   : " (" + seen->second.name + ", lost " +
                                                         WholeSeconds(now - seen->second.last_message) + " ago)"));
  }
  if (missing > kNamedMax) AddName(&names, Count(missing - kNamedMax, "more rank"));
  return names;
}

}  // namespace capstan::server
