// Membership: the workers of a job: sessions, leases, and who computes which slots.
//
// Kind:   owned by the Coordinator.
// Limits: kWorkersMax sessions.
// Why:    workers are interchangeable executors of slots. Losing, adding or restarting one only moves slots.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/types.h"

namespace capstan {
enum class GroupState : std::uint8_t;
}  // namespace capstan

namespace capstan::server {

struct Worker {
  SessionId session;
  std::string name;
  std::uint64_t nonce = 0;
  PeerId peer;
  Instant last_heard{};
  std::uint32_t rank = 0;  // 0: none; r: slot r - 1 and no other
  std::string machine;     // empty: not known
  std::string metrics;     // host:port; empty: it serves none
  std::vector<SlotIndex> slots;
  bool has_new_slots = true;  // since its last view
  // From its last Beat.
  Generation generation;
  Step step;
  bool computing = false;
  Instant since{};                // when it last said something new of these three
  bool late = false;              // its machine's workers do not wait for it, until it has done a step
  std::vector<SlotIndex> backup;  // of slower workers, computed by this one as well in the step under way
  std::uint64_t view_sequence = 0;
  std::vector<ShardIndex> missing;
  std::uint64_t barrier = 0;  // the one it waits for
  GroupState group = {};      // kNone; allreduce: of the present generation; sync: of `group_epoch`
  std::string group_text;     // as in its Beat
  std::uint64_t group_epoch = 0;
  bool idle = false;  // it was named as one that no slot is left for
};

// kKeep: a worker keeps what it has, as far as its share goes. kByMachine: workers of one machine get neighbouring
// slots, whoever had them.
enum class Dealing : std::uint8_t { kKeep, kByMachine };

class Membership {
 public:
  static constexpr std::size_t kWorkersMax = 4096;
  static constexpr std::size_t kNamesMax = 65536;  // remembered; beyond them a name's history is lost

  // The worker with this name, if one is in.
  const Worker* Find(const std::string& name) const;
  Worker* Find(SessionId session);
  bool full() const { return workers_.size() >= kWorkersMax; }
  Worker& Add(Worker worker);
  void Remove(SessionId session);
  // Takes out whoever has not been heard for `lease`.
  std::vector<Worker> RemoveSilent(Instant now, Instant lease);
  // Every lease starts anew: after a pause of the coordinator nobody is to blame.
  void RenewAll(Instant now);
  // Deals the slots over all workers, in order of their sessions; one with a rank gets its own. Returns the number of
  // slots that moved.
  std::size_t Assign(SlotIndex slot_count, Dealing dealing = Dealing::kKeep);

  // Whether a newer process has taken this one's name: it does not get it back.
  bool IsSuperseded(std::uint64_t nonce) const { return superseded_.contains(nonce); }

  std::size_t size() const { return workers_.size(); }
  std::map<SessionId, Worker>& workers() { return workers_; }
  const std::map<SessionId, Worker>& workers() const { return workers_; }

 private:
  std::vector<std::vector<SlotIndex>> RankedSlots() const;
  std::vector<std::vector<SlotIndex>> SlotsByMachine(SlotIndex slot_count) const;

  std::map<SessionId, Worker> workers_;
  std::map<std::string, std::uint64_t> newest_;  // process of each name, gone or not; at most kNamesMax
  std::set<std::uint64_t> superseded_;           // at most kNamesMax
};

}  // namespace capstan::server
