// Ranks: workers that come with a number of their own, each for one slot that nobody else is given.
//
// Kind:   a value; part of the Coordinator. Volatile: after a restart every worker says its rank again.
// Fails:  kRefused, naming both numbers or both workers.
// Why:    a trainer whose processes are not interchangeable keeps what a slot needs in one of them: the job waits for
//         that one, by name.
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
  static constexpr std::size_t kNamedMax = 8;  // missing ones, in a line for people

  // Whether this worker may join those that are there.
  Status Check(const Join& join, SlotIndex slot_count, const Membership& members) const;
  // It joined, or was heard.
  void Heard(const Worker& worker, Instant now);
  // Whether any was ever seen: then slots belong to ranks.
  bool in_use() const { return !seen_.empty(); }
  // "rank 2 of 4 (worker-2, lost 12 s ago), rank 3 of 4 (never seen)"; empty when none is missing.
  std::string Missing(SlotIndex slot_count, const Membership& members, Instant now) const;

 private:
  struct Seen {
    std::string name;
    Instant last_heard{};
  };
  std::map<std::uint32_t, Seen> seen_;  // by rank, from 1
};

}  // namespace capstan::server
