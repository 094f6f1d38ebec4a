// Ranks: workers with a fixed number, each for one slot that no other worker gets.
//
// Kind:   a value; part of the Coordinator. Volatile: after a restart every worker's Join has its rank again.
// Fails:  kRefused, naming both numbers or both workers.
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

  // Whether this worker may join the present members.
  Status Check(const Join& join, SlotIndex slot_count, const Membership& members) const;
  // Notes that the worker joined or sent a message.
  void NoteMessage(const Worker& worker, Instant now);
  // Whether a worker with a rank was ever seen. If so, slots belong to ranks.
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
