#include "server/coordinator/ranks.h"

#include "common/wire/messages/membership.h"
#include "server/coordinator/coordinator_text.h"

namespace capstan::server {

namespace {

// Names a rank for people, who count ranks from 0. `rank` counts from 1, as in Join, where 0 means none.
std::string Named(std::uint32_t rank, SlotIndex of) {
  return "rank " + std::to_string(rank - 1) + " of " + std::to_string(of);
}

}  // namespace

std::string MixedRanksText(const std::string& name, std::uint32_t rank, const Worker& other, SlotIndex slot_count) {
  const auto has = [&](std::uint32_t one) { return one == 0 ? "no rank" : Named(one, slot_count); };
  return "worker \"" + name + "\" has " + has(rank) + ", and \"" + other.name + "\" has " + has(other.rank) +
         "; in one job either every worker has one, or none has";
}

Status Ranks::Check(const Join& join, SlotIndex slot_count, const Membership& members) const {
  const std::string named = "worker \"" + join.worker + "\" is " + Named(join.rank, join.ranks);
  if (join.rank != 0 && join.ranks != slot_count) {
    return Refused(named + ", and the job has " + Count(slot_count, "slot") + "; start " + std::to_string(slot_count) +
                   " ranks, or set job.slots = " + std::to_string(join.ranks));
  }
  if (join.rank > join.ranks) return Refused(named + "; ranks are from 0 to " + std::to_string(join.ranks - 1));
  if (members.RanksInUse() == (join.rank != 0)) return {};
  for (const auto& [session, worker] : members.workers()) {
    if ((worker.rank != 0) != (join.rank != 0) && worker.delivered && !worker.left_out)
      return Refused(MixedRanksText(join.worker, join.rank, worker, slot_count));
  }
  return {};
}

std::string TakenRankText(const Join& join, const Worker& holder) {
  return "worker \"" + join.worker + "\" is " + Named(join.rank, join.ranks) + ", which \"" + holder.name +
         "\" is already; give this one another rank, or end the other";
}

void Ranks::NoteMessage(const Worker& worker, Instant now) {
  if (worker.rank != 0) seen_[worker.rank] = {worker.name, now};
}

std::string Ranks::Missing(SlotIndex slot_count, const Membership& members, Instant now) const {
  std::string names;
  std::size_t missing = 0;
  for (std::uint32_t rank = 1; members.RanksInUse() && rank <= slot_count; ++rank) {
    if (members.HolderOf(rank) != nullptr || ++missing > kNamedMax) continue;
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
