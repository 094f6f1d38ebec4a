#include "server/coordinator/membership.h"

#include <algorithm>
#include <utility>

#include "server/coordinator/slot_assignment.h"

namespace capstan::server {

Worker* Membership::Find(SessionId session) {
  const auto found = workers_.find(session);
  return found == workers_.end() ? nullptr : &found->second;
}

Worker* Membership::Find(const std::string& name, std::uint64_t nonce) {
  for (auto& [session, worker] : workers_) {
    if (worker.nonce == nonce && worker.name == name) return &worker;
  }
  return nullptr;
}

Worker* Membership::FindPeer(PeerId peer) {
  for (auto& [session, worker] : workers_) {
    if (worker.peer == peer) return &worker;
  }
  return nullptr;
}

const Worker* Membership::HolderOf(std::uint32_t rank) const {
  if (rank == 0) return nullptr;
  for (const auto& [session, worker] : workers_) {
    if (worker.rank == rank) return &worker;
  }
  return nullptr;
}

Worker* Membership::HolderOf(std::uint32_t rank) {
  return const_cast<Worker*>(std::as_const(*this).HolderOf(rank));
}

Worker* Membership::QuietestNamed(const std::string& name) {
  Worker* quietest = nullptr;
  for (auto& [session, worker] : workers_) {
    if (worker.name != name) continue;
    if (quietest == nullptr || worker.last_message < quietest->last_message) quietest = &worker;
  }
  return quietest;
}

Worker& Membership::Add(Worker worker) {
  const SessionId session = worker.session;
  return workers_.insert_or_assign(session, std::move(worker)).first->second;
}

void Membership::Remove(SessionId session) { workers_.erase(session); }

std::vector<Worker> Membership::RemoveSilent(Instant now, Instant lease) {
  std::vector<Worker> lost;
  for (auto it = workers_.begin(); it != workers_.end();) {
    if (now - it->second.last_message < lease) {
      ++it;
      continue;
    }
    lost.push_back(std::move(it->second));
    it = workers_.erase(it);
  }
  return lost;
}

void Membership::RenewAll(Instant now) {
  for (auto& [session, worker] : workers_) worker.last_message = now;
}

void Membership::ForgetGroups() {
  for (auto& [session, worker] : workers_) {
    worker.group = {};
    worker.group_text.clear();
    worker.offer.clear();
  }
}

bool Membership::RanksInUse() const {
  std::size_t with = 0, without = 0;
  const Worker* first = nullptr;
  for (const auto& [session, worker] : workers_) {
    if (worker.left_out) continue;
    ++(worker.rank != 0 ? with : without);
    if (first == nullptr || worker.joined < first->joined) first = &worker;
  }
  return with == without ? first != nullptr && first->rank != 0 : with > without;
}

std::vector<Worker*> Membership::TakingPart() {
  const bool ranked = RanksInUse();
  std::vector<Worker*> part;
  for (auto& [session, worker] : workers_) {
    if (!worker.left_out && (worker.rank != 0) == ranked) part.push_back(&worker);
  }
  if (!part.empty() || workers_.empty()) return part;
  for (auto& [session, worker] : workers_) worker.left_out = false;
  return TakingPart();
}

namespace {

using SlotLists = std::vector<std::vector<SlotIndex>>;

// Lists for each worker the slot of its rank. A slot whose rank is missing has no worker.
SlotLists SlotsByRank(const std::vector<Worker*>& workers) {
  SlotLists slots(workers.size());
  for (std::size_t i = 0; i < workers.size(); ++i) slots[i].push_back(workers[i]->rank - 1);
  return slots;
}

// Deals neighbouring slots to the workers of one machine. A worker whose machine is unknown counts as a separate
// machine.
SlotLists SlotsByMachine(const std::vector<Worker*>& workers, SlotIndex slot_count) {
  std::map<std::string, std::size_t> machines;
  std::vector<std::size_t> machine_of;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    const std::string& machine = workers[i]->machine;
    machine_of.push_back(machine.empty() ? i : machines.try_emplace(machine, i).first->second);
  }
  return DealInOrderOf(machine_of, slot_count);
}

SlotLists SlotsAsBefore(const std::vector<Worker*>& workers, SlotIndex slot_count) {
  SlotLists owned;
  for (const Worker* worker : workers) owned.push_back(worker->slots);
  return AssignSlots(owned, slot_count);
}

}  // namespace

std::size_t Membership::Assign(SlotIndex slot_count, Distribution distribution) {
  const std::vector<Worker*> part = TakingPart();
  SlotLists assigned = RanksInUse()                               ? SlotsByRank(part)
                       : distribution == Distribution::kByMachine ? SlotsByMachine(part, slot_count)
                                                                  : SlotsAsBefore(part, slot_count);
  std::size_t moved = 0, index = 0;
  for (auto& [session, worker] : workers_) {
    const bool gets = index < part.size() && part[index] == &worker;
    std::vector<SlotIndex> slots = gets ? std::move(assigned[index++]) : std::vector<SlotIndex>();
    for (const SlotIndex slot : slots) {
      moved += std::find(worker.slots.begin(), worker.slots.end(), slot) == worker.slots.end() ? 1 : 0;
    }
    worker.has_new_slots = worker.has_new_slots || slots != worker.slots;
    worker.dealt = worker.dealt || slots != worker.slots;
    worker.slots = std::move(slots);
  }
  return moved;
}

}  // namespace capstan::server
