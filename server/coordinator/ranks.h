// Ranks: workers with a fixed number, each for one slot that no other worker gets.
//
// Kind:   a value; part of the Coordinator. Volatile: after a restart the workers join again, with their ranks.
// Fails:  Check: kRefused, naming the two numbers or workers that contradict each other.
// Why:    a trainer whose processes are not interchangeable keeps a slot's data in one process. The job waits for that
//         process and names it.
#pragma once

#include <map>
#include <string>

#include "common/base/status.h"
#include "server/coordinator/membership.h"

namespace capstan {
struct Join;
}  // namespace capstan

namespace capstan::server {

class Ranks {
 public:
  static constexpr std::size_t kNamedMax = 8;  // missing ranks named in a log line

  // Fails unless this worker may join: all workers have different ranks, as many as slots, or none has a rank.
  Status Check(const Join& join, SlotIndex slot_count, const Membership& members) const;
  // Notes that the worker joined or sent a Heartbeat.
  void NoteMessage(const Worker& worker, Instant now);
  // Whether this coordinator has ever seen a worker with a rank. If so, each slot belongs to a rank.
  bool in_use() const { return !seen_.empty(); }
  // Names the missing ranks, such as "rank 2 of 4 (worker-2, lost 12 s ago), rank 3 of 4 (never seen)"; empty if none
  // is missing.
  std::string Missing(SlotIndex slot_count, const Membership& members, Instant now) const;

 private:
  struct Seen {
    std::string name;
    Instant last_message{};
  };
  std::map<std::uint32_t, Seen> seen_;  // by rank, from 1
};

}  // namespace capstan::server
