// Barrier: members that wait for each other.
//
// Kind:   a value; part of the Coordinator. Volatile: after a restart members say again what they wait for.
// Why:    a program's processes agree on a point of their own (files are written, a first batch is loaded) through the
//         service they already share. A member waits for a number above the newest that was passed; passing makes that
//         the highest number waited for, so that members which count differently, after a restart, all go on.
#pragma once

#include <cstdint>
#include <string>

#include "server/coordinator/membership.h"

namespace capstan::server {

class Barrier {
 public:
  static constexpr std::size_t kNamedMax = 8;  // missing ones, in a line for people

  std::uint64_t passed() const { return passed_; }
  bool IsWaiting(const Worker& worker) const { return worker.barrier > passed_; }
  bool AnyWaiting(const Membership& members) const;
  // "worker-2, worker-5": the members that have not come; empty when all have.
  std::string Missing(const Membership& members) const;
  void Pass(const Membership& members);

 private:
  std::uint64_t passed_ = 0;
};

}  // namespace capstan::server
