// Ranks: workers with a fixed number, each for one slot that no other worker gets.
//
// Kind:   a value; part of the Coordinator. Volatile: after a restart the workers join again, with their ranks.
// Limits: as many ranks are remembered as the job has slots. A rank is forgotten when its process leaves.
// Fails:  Check: kRefused, naming the two numbers or workers that contradict each other.
// Why:    a trainer whose processes are not interchangeable keeps a slot's data in one process. The job waits for that
//         process and names it. Workers with and without ranks cannot compute one job, but the first one that comes does
//         not decide which it is: most do, and nobody is refused before a worker of theirs has delivered.
#pragma once

#include <map>
#include <string>

#include "common/base/status.h"
#include "server/coordinator/membership.h"

namespace capstan {
struct Join;
}  // namespace capstan

namespace capstan::server {

// Says which worker has the rank that `join` wants.
std::string TakenRankText(const Join& join, const Worker& holder);
// Says that the worker has a rank and another has none, or the other way round.
std::string MixedRanksText(const std::string& name, std::uint32_t rank, const Worker& other, SlotIndex slot_count);

class Ranks {
 public:
  static constexpr std::size_t kNamedMax = 8;  // missing ranks named in a log line

  // Fails if this worker cannot take part: its rank is no rank of this job, or it has one where the workers that
  // deliver have none, or none where they have one.
  Status Check(const Join& join, SlotIndex slot_count, const Membership& members) const;
  // Notes that the worker joined or sent a Heartbeat.
  void NoteMessage(const Worker& worker, Instant now);
  void Forget(std::uint32_t rank) { seen_.erase(rank); }
  // Names the missing ranks, such as "rank 2 of 4 (worker-2, lost 12 s ago), rank 3 of 4 (never seen)"; empty if none
  // is missing, or if ranks are not in use.
  std::string Missing(SlotIndex slot_count, const Membership& members, Instant now) const;

 private:
  struct Seen {
    std::string name;
    Instant last_message{};
  };
  std::map<std::uint32_t, Seen> seen_;  // by rank, from 1
};

}  // namespace capstan::server
