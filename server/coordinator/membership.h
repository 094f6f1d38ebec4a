// Membership: the workers of a job: their sessions, leases and slots.
//
// Kind:   owned by the Coordinator.
// Limits: kWorkersMax sessions.
// Why:    workers are interchangeable executors of slots. If one is lost, added or restarted, only slots move.
//         Names are for people: two living processes with one name are two workers. A process is replaced by another
//         one of its name only once its connection has ended, because anybody can send a Join with any name.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/types.h"

namespace capstan {
enum class GroupState : std::uint8_t;
}  // namespace capstan

namespace capstan::server {

struct CatalogRecord;

struct Worker {
  SessionId session;
  std::string name;
  std::uint64_t nonce = 0;
  PeerId peer;
  Instant joined{}, last_message{};
  // What it declares of the job, until the job has a declaration; null after that.
  std::shared_ptr<const CatalogRecord> declared;
  bool gone = false;        // the connection of `peer` has ended
  bool namesake = false;    // another process has joined under its name since its last message
  PeerId claimant;          // a process that wants its rank, and waits for its end; 0: none
  std::uint32_t rank = 0;  // 0: none; r: only slot r - 1
  std::string machine;     // empty: unknown
  std::string metrics;     // host:port of its metrics; empty: none
  std::vector<SlotIndex> slots;
  bool dealt = false;     // whether `slots` changed since the last DealSlots
  Instant slots_since{};  // when, and during which step, it got its present slots
  Step slots_from;
  bool delivered = false;  // it had its slots for the whole of a step that has ended
  int turns = 0;           // how often it got all slots, because nobody was known to deliver
  bool left_out = false;   // it gets no slots, because others waited for it in vain, or because it is new while they did
  bool has_new_slots = true;  // whether `slots` changed since its last View
  // The state that the worker's last Heartbeat reported, and what follows from it.
  Generation generation;
  Step step;
  bool computing = false;
  Instant since{};                // when generation, step or computing last changed
  bool late = false;              // too slow: left out of its machine's group until it has done the step under way
  std::uint64_t view_sequence = 0;
  std::vector<ShardIndex> missing;
  std::uint64_t barrier = 0;  // the barrier that it waits in
  GroupState group = {};      // of the present generation (allreduce) or of `group_epoch` (sync)
  std::string group_text;     // as in Heartbeat
  std::string offer;          // allreduce: what it offered, until it has formed the group
  int breaks = 0;             // allreduce: how many groups it was the first to give up since the last step
  std::optional<Instant> away_since;  // allreduce: since when it has slots and has come to no group
  std::uint64_t group_epoch = 0;
  bool idle = false;  // it has no slot because there are more workers than slots
};

// kKeepSlots: a worker keeps its slots, up to an equal share. kByMachine: workers of one machine get adjacent slots.
enum class Distribution : std::uint8_t { kKeepSlots, kByMachine };

class Membership {
 public:
  static constexpr std::size_t kWorkersMax = 4096;

  Worker* Find(SessionId session);
  // Returns the worker that is this start of a process; null: there is none.
  Worker* Find(const std::string& name, std::uint64_t nonce);
  // Returns the worker behind this connection; null: there is none.
  Worker* FindPeer(PeerId peer);
  // Returns the worker of this rank, as in Join; null: there is none, or `rank` is 0.
  Worker* HolderOf(std::uint32_t rank);
  const Worker* HolderOf(std::uint32_t rank) const;
  // Returns the worker of this name from which no message has come for the longest time; null: there is none.
  Worker* QuietestNamed(const std::string& name);
  bool full() const { return workers_.size() >= kWorkersMax; }
  Worker& Add(Worker worker);
  void Remove(SessionId session);
  // Removes and returns the workers from which no message has come for `lease`.
  std::vector<Worker> RemoveSilent(Instant now, Instant lease);
  // Restarts every lease, after a pause of the coordinator in which it received no Heartbeats.
  void RenewAll(Instant now);
  // Forgets what workers reported of their groups. In mode allreduce each generation has another group.
  void ForgetGroups();
  // Whether each slot belongs to a rank: more workers have one than have none or, if as many have, the first has.
  bool RanksInUse() const;
  // Gives all slots to workers, in order of their sessions. If ranks are in use, each worker gets only the slot of its
  // rank, and a worker without a rank none; if they are not, a worker with a rank gets none.
  // Workers that are left out get none; if all are, none is left out any more. Returns the number of slots whose worker
  // did not have them before.
  std::size_t Assign(SlotIndex slot_count, Distribution distribution = Distribution::kKeepSlots);

  std::size_t size() const { return workers_.size(); }
  std::map<SessionId, Worker>& workers() { return workers_; }
  const std::map<SessionId, Worker>& workers() const { return workers_; }

 private:
  // Returns the workers that get slots, in order of their sessions.
  std::vector<Worker*> TakingPart();

  std::map<SessionId, Worker> workers_;
};

}  // namespace capstan::server
