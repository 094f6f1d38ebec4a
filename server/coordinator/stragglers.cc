#include "server/coordinator/stragglers.h"

#include <algorithm>

namespace capstan::server {

namespace {

Worker* FindIdleWorker(const StepUnderWay& work, Membership* members) {
  Worker* idle = nullptr;
  for (auto& [joined, worker] : members->workers()) {
    if (!HasDoneStep(worker, work) || !worker.backup.empty()) continue;
    if (idle == nullptr || worker.slots.size() < idle->slots.size()) idle = &worker;
  }
  return idle;
}

bool IsBackedUp(const Worker& slow, const Membership& members) {
  return std::any_of(members.workers().begin(), members.workers().end(), [&](const auto& other) {
    const auto& backup = other.second.backup;
    return std::find(backup.begin(), backup.end(), slow.slots.front()) != backup.end();
  });
}

}  // namespace

bool IsSlow(const Worker& worker, const StepUnderWay& work, Instant now, Instant limit) {
  return worker.computing && worker.generation == work.generation && worker.step <= work.step &&
         !worker.slots.empty() && now - worker.pace.since >= limit;
}

bool HasDoneStep(const Worker& worker, const StepUnderWay& work) {
  return worker.generation == work.generation && !worker.computing &&
         (worker.step >= work.step || worker.slots.empty());
}

std::vector<std::pair<const Worker*, Worker*>> BackUpSlowWorkers(const StepUnderWay& work, Instant now, Instant limit,
                                                                 Membership* members) {
  std::vector<std::pair<const Worker*, Worker*>> backups;
  for (const auto& [joined, slow] : members->workers()) {
    if (!IsSlow(slow, work, now, limit)) continue;
    Worker* const helper = FindIdleWorker(work, members);
    if (helper == nullptr || helper == &slow) break;
    if (IsBackedUp(slow, *members)) continue;
    helper->backup = slow.slots;
    backups.emplace_back(&slow, helper);
  }
  return backups;
}

std::size_t ForgetBackups(Membership* members) {
  std::size_t had = 0;
  for (auto& [joined, worker] : members->workers()) {
    had += worker.backup.empty() ? 0 : 1;
    worker.backup.clear();
  }
  return had;
}

}  // namespace capstan::server
