#include "server/coordinator/membership.h"

#include <utility>

#include "server/coordinator/slot_assignment.h"

namespace capstan::server {

const Worker* Membership::Find(const std::string& name) const {
  for (const auto& [joined, worker] : workers_) {
    if (worker.name == name) return &worker;
  }
  return nullptr;
}

const Worker* Membership::Find(SessionId session) const {
  const auto number = joined_.find(session);
  return number == joined_.end() ? nullptr : &workers_.at(number->second);
}

Worker* Membership::Find(SessionId session) { return const_cast<Worker*>(std::as_const(*this).Find(session)); }

Worker& Membership::Add(Worker worker) {
  const auto known = newest_.find(worker.name);
  if (known != newest_.end() && known->second != worker.nonce && superseded_.size() < kNamesMax) {
    superseded_.insert(known->second);
  }
  if (known != newest_.end() || newest_.size() < kNamesMax) newest_[worker.name] = worker.nonce;
  newest_join_ = newest_join_.Next();
  joined_.emplace(worker.session, newest_join_);
  return workers_.emplace(newest_join_, std::move(worker)).first->second;
}

void Membership::Remove(SessionId session) {
  const auto number = joined_.find(session);
  if (number == joined_.end()) return;
  workers_.erase(number->second);
  joined_.erase(number);
}

std::vector<Worker> Membership::RemoveSilent(Instant now, Instant lease) {
  std::vector<Worker> lost;
  for (auto it = workers_.begin(); it != workers_.end();) {
    if (now - it->second.last_message < lease) {
      ++it;
      continue;
    }
    joined_.erase(it->second.session);
    lost.push_back(std::move(it->second));
    it = workers_.erase(it);
  }
  return lost;
}

void Membership::RenewAll(Instant now) {
  for (auto& [joined, worker] : workers_) worker.last_message = now;
}

void Membership::ForgetGroups() {
  for (auto& [joined, worker] : workers_) {
    worker.group.state = {};
    worker.group.text.clear();
  }
}

// Lists for each worker the slot of its rank. A slot whose rank is missing has no worker.
std::vector<std::vector<SlotIndex>> Membership::RankedSlots() const {
  std::vector<std::vector<SlotIndex>> slots;
  for (const auto& [joined, worker] : workers_) {
    slots.emplace_back();
    if (worker.rank != 0) slots.back().push_back(worker.rank - 1);
  }
  return slots;
}

// Deals neighbouring slots to the workers of one machine. A worker whose machine is unknown counts as a separate
// machine.
std::vector<std::vector<SlotIndex>> Membership::SlotsByMachine(SlotIndex slot_count) const {
  std::map<std::string, std::size_t> machines;
  std::vector<std::size_t> machine_of;
  std::size_t next = 0;
  for (const auto& [joined, worker] : workers_) {
    const std::size_t own = next++;
    machine_of.push_back(worker.machine.empty() ? own : machines.try_emplace(worker.machine, own).first->second);
  }
  return DealInOrderOf(machine_of, slot_count);
}

std::size_t Membership::Assign(SlotIndex slot_count, Distribution distribution) {
  std::vector<std::vector<SlotIndex>> owned;
  bool ranked = false;
  for (const auto& [joined, worker] : workers_) {
    ranked = ranked || worker.rank != 0;
    owned.push_back(worker.slots);
  }
  std::vector<std::vector<SlotIndex>> assigned = ranked ? RankedSlots()
                                                 : distribution == Distribution::kByMachine
                                                     ? SlotsByMachine(slot_count)
                                                     : AssignSlots(owned, slot_count);
  std::size_t moved = 0, index = 0;
  for (auto& [joined, worker] : workers_) {
    std::vector<SlotIndex>& slots = assigned[index++];
    for (SlotIndex slot : slots) {
      bool had = false;
      for (SlotIndex old : worker.slots) had = had || old == slot;
      moved += had ? 0 : 1;
    }
    worker.view_due = worker.view_due || slots != worker.slots;
    worker.slots = std::move(slots);
  }
  return moved;
}

}  // namespace capstan::server
