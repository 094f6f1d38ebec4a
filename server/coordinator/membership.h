// Membership: the workers of a job: their sessions, leases and slots.
//
// Kind:   owned by the Coordinator.
// Limits: kWorkersMax sessions (limits.h).
// Why:    workers are interchangeable executors of slots. If one is lost, added or restarted, only slots move.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/types.h"
#include "common/keys/principal.h"
#include "common/wire/messages/limits.h"
#include "server/coordinator/join_budget.h"
#include "server/coordinator/recent_time.h"
#include "server/coordinator/set_aside.h"

namespace capstan {
enum class GroupState : std::uint8_t;
}  // namespace capstan

namespace capstan::server {

using JoinNumber = Number<struct JoinTag>;  // counts the sessions of a coordinator, in the order in which they joined

// How far a worker is in forming its group, as its Heartbeats say: that of the generation (allreduce), or that of its
// machine, which the epoch names (sync).
struct ReportedGroup {
  GroupState state = {};
  std::string text;
  std::uint64_t epoch = 0;
};

// How fast a worker is, as far as its Heartbeats say.
struct Pace {
  Instant since{};         // when generation, step or computing last changed
  bool late = false;       // too slow: left out of its machine's group until it has done the step under way
  std::int64_t ahead = 0;  // its step minus the job's, when its last Heartbeat came
  RecentTime<3> time;      // parts of its time: input, exchange, commit
};

struct Worker {
  SessionId session;
  std::string name;
  std::uint64_t nonce = 0;
  PeerId peer;
  Principal principal;
  Instant last_message{};
  std::uint32_t rank = 0;  // 0: none; r: only slot r - 1
  std::string machine;     // empty: unknown
  std::string metrics;     // host:port or https://host:port of its metrics; empty: none
  std::vector<SlotIndex> slots;
  bool view_due = true;  // its last View is old: `slots` changed since, or it was not sent before the shards knew them
  // The state that the worker's last Heartbeat reported, and what follows from it.
  Generation generation;
  Step step;
  bool computing = false;
  Pace pace;
  std::vector<SlotIndex> backup;  // slots of slower workers that this one also computes in the current step
  std::uint64_t view_sequence = 0;
  std::vector<ShardIndex> missing;
  std::uint64_t barrier = 0;  // the barrier that it waits in
  ReportedGroup group;
  bool idle = false;  // it has no slot because there are more workers than slots
};

// kKeepSlots: a worker keeps its slots, up to an equal share. kByMachine: workers of one machine get adjacent slots.
enum class Distribution : std::uint8_t { kKeepSlots, kByMachine };

class Membership {
 public:
  static constexpr std::size_t kNamesMax = 65536;  // the most names, and replaced processes, that are remembered

  const Worker* Find(const std::string& name) const;
  Worker* Find(SessionId session);
  const Worker* Find(SessionId session) const;
  bool full() const { return workers_.size() >= kWorkersMax; }
  Worker& Add(Worker worker);
  void Remove(SessionId session);
  // Removes and returns the workers from which no message has come for `lease`.
  std::vector<Worker> RemoveSilent(Instant now, Instant lease);
  // Restarts every lease, after a pause of the coordinator in which it received no Heartbeats.
  void RenewAll(Instant now);
  // Forgets what workers reported of their groups. In mode allreduce each generation has another group.
  void ForgetGroups();
  // Gives all slots to workers, in the order in which they joined. If workers have ranks, each gets only the slot of
  // its rank. Returns the number of slots whose worker did not have them before.
  std::size_t Assign(SlotIndex slot_count, Distribution distribution = Distribution::kKeepSlots);

  // Whether another process, with another nonce, has joined under this name before, as far as names are remembered.
  bool IsRestart(const std::string& name, std::uint64_t nonce) const {
    const auto found = newest_.find(name);
    return found != newest_.end() && found->second != nonce;
  }
  // Whether a newer process has taken over the name of the process that drew this nonce, which may not join again.
  bool IsSuperseded(std::uint64_t nonce) const { return superseded_.contains(nonce); }

  std::size_t size() const { return workers_.size(); }
  // The workers in the order in which they joined.
  std::map<JoinNumber, Worker>& workers() { return workers_; }
  const std::map<JoinNumber, Worker>& workers() const { return workers_; }
  // Whether the first of these two sessions joined before the second. Both are sessions of members.
  bool IsSenior(SessionId first, SessionId second) const { return joined_.at(first) < joined_.at(second); }
  // Whether one more process may join now.
  bool TakeJoin(Instant now) { return joins_.Take(now); }
  // Processes that take part no more.
  SetAside& set_aside() { return set_aside_; }
  const SetAside& set_aside() const { return set_aside_; }

 private:
  std::vector<std::vector<SlotIndex>> RankedSlots() const;
  std::vector<std::vector<SlotIndex>> SlotsByMachine(SlotIndex slot_count) const;

  std::map<JoinNumber, Worker> workers_;
  std::map<SessionId, JoinNumber> joined_;  // of all members
  JoinNumber newest_join_;
  std::map<std::string, std::uint64_t> newest_;  // by name; kept after a worker has left; at most kNamesMax
  SetAside set_aside_;
  JoinBudget joins_;
  std::set<std::uint64_t> superseded_;  // nonces of replaced processes; at most kNamesMax
};

}  // namespace capstan::server
