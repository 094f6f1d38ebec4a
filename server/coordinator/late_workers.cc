#include "server/coordinator/late_workers.h"

#include <algorithm>

#include "common/wire/messages/group_state.h"
#include "server/coordinator/coordinator_text.h"
#include "server/coordinator/membership.h"

namespace capstan::server {

namespace {

constexpr int kDoublingsMax = 3;

std::string StepText(const StepUnderWay& work) { return "step " + std::to_string(work.step.value); }

bool HoldsAny(const Worker& worker, const std::vector<SlotIndex>& slots) {
  return std::any_of(worker.slots.begin(), worker.slots.end(), [&](SlotIndex slot) {
    return std::find(slots.begin(), slots.end(), slot) != slots.end();
  });
}

// Whether a worker has waited for `patience` for others. Where workers that have delivered wait as well, only their word
// counts.
bool OthersWait(const StepUnderWay& work, Instant since, Instant patience, const Membership& members, Instant now) {
  const auto any = [&](const auto& is) {
    return std::any_of(members.workers().begin(), members.workers().end(), [&](const auto& entry) {
      return !entry.second.left_out && HasDoneStep(entry.second, work) && is(entry.second);
    });
  };
  const bool proven = any([](const Worker& worker) { return worker.delivered; });
  return any([&](const Worker& worker) {
    return worker.delivered == proven && now - std::max(worker.since, since) >= patience;
  });
}

// Finds the late workers by what they say. If nobody says that it computes, those are suspected that never delivered. If
// all holders are of one kind, each gets all slots in turn.
std::vector<Worker*> FindByWord(const StepUnderWay& work, Instant since, Instant patience,
                                const std::vector<Worker*>& holders, Instant now) {
  std::vector<Worker*> late, unproven, all;
  for (Worker* worker : holders) {
    if (now - std::max(worker->slots_since, since) < patience) continue;
    all.push_back(worker);
    if (!HasDoneStep(*worker, work)) late.push_back(worker);
    if (!worker->delivered) unproven.push_back(worker);
  }
  if (!late.empty()) return late;
  if (all.size() < holders.size()) return {};  // the others have had their slots for too short a time
  if (!unproven.empty() && unproven.size() < holders.size()) return unproven;
  if (all.size() < 2) return all;
  const auto next = std::min_element(all.begin(), all.end(), [](const Worker* a, const Worker* b) {
    return a->turns < b->turns || (a->turns == b->turns && a->joined < b->joined);
  });
  ++(*next)->turns;
  all.erase(next);
  return all;
}

}  // namespace

bool IsSlow(const Worker& worker, const StepUnderWay& work, Instant now, Instant limit) {
  return worker.computing && worker.generation == work.generation && worker.step <= work.step &&
         !worker.slots.empty() && now - worker.since >= limit;
}

bool HasDoneStep(const Worker& worker, const StepUnderWay& work) {
  return worker.generation == work.generation && !worker.computing &&
         (worker.step >= work.step || worker.slots.empty());
}

Instant LateWorkers::Patience(const Situation& situation) const {
  return situation.patience * (1 << std::min(in_vain_, kDoublingsMax));
}

std::vector<LateWorkers::Late> LateWorkers::Find(const Situation& situation, Membership* members, Instant now) const {
  const Instant patience = Patience(situation), since = std::max(situation.since, trouble_);
  if (now - since < patience) return {};
  std::vector<Worker*> holders, late;
  for (auto& [session, worker] : members->workers()) {
    if (!worker.slots.empty()) holders.push_back(&worker);
  }
  if (situation.missing) {
    for (Worker* worker : holders) {
      if (now - worker->slots_since >= patience && HoldsAny(*worker, *situation.missing)) late.push_back(worker);
    }
  } else if (OthersWait(situation.work, since, patience, *members, now)) {
    late = FindByWord(situation.work, since, patience, holders, now);
  }
  if (late.size() == members->size()) return {};
  std::vector<Late> found;
  for (Worker* worker : late) {
    const bool says_done = !situation.missing && HasDoneStep(*worker, situation.work);
    found.push_back({worker, says_done ? "it says that it has done " + StepText(situation.work) + ", which is not whole"
                                       : "it has not done " + StepText(situation.work)});
  }
  return found;
}

std::vector<LateWorkers::Late> LateWorkers::FindAway(Instant patience, Membership* members, Instant now) const {
  std::vector<Late> found;
  bool any_is_there = false;
  for (auto& [session, worker] : members->workers()) {
    const bool is_there = worker.group != GroupState::kNone;
    any_is_there = any_is_there || (is_there && !worker.slots.empty());
    if (worker.breaks >= kBreaksMax) {
      found.push_back({&worker, "it has given up " + Count(kBreaksMax, "group") + " in a row, and no step was done"});
    } else if (worker.slots.empty() || is_there) {
      worker.away_since.reset();
    } else if (!worker.away_since) {
      worker.away_since = now;
    } else if (now - std::max(*worker.away_since, trouble_) >= patience) {
      found.push_back({&worker, "it has not come to the group"});
    }
  }
  return any_is_there && found.size() < members->size() ? found : std::vector<Late>();
}

void LateWorkers::NoteLate(Instant patience, Instant now) {
  if (now - last_late_ >= kForgotten) wait_ = {};
  last_late_ = now;
  wait_ = std::min(std::max(2 * wait_, patience), std::max(kLongestTry, patience));
  next_try_ = now + wait_;
  ++in_vain_;
}

std::string LateWorkers::TakeBack(const StepUnderWay& work, Membership* members, Instant now) const {
  std::string names;
  if (HoldsBack(now) || in_vain_ > 0) return names;
  for (auto& [session, worker] : members->workers()) {
    if (!worker.left_out || !HasDoneStep(worker, work)) continue;
    worker.left_out = false;
    AddName(&names, "\"" + worker.name + "\"");
  }
  return names;
}

}  // namespace capstan::server
