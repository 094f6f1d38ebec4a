// Barrier: a point at which the workers of a job wait for each other.
//
// Kind:   a value; part of the Coordinator. Volatile: after a restart, the workers' Heartbeats name their barriers
//         again.
// Why:    a program's processes can meet (files are written, a first batch is loaded) through the service that they
//         already share. A member waits for a number above the newest passed one. Passing advances to the highest
//         number that any member waits for, so members that count differently after a restart all go on.
#pragma once

#include <cstdint>
#include <string>

#include "server/coordinator/membership.h"

namespace capstan::server {

class Barrier {
 public:
  static constexpr std::size_t kNamedMax = 8;  // the most workers that Missing names

  std::uint64_t passed() const { return passed_; }
  bool IsWaiting(const Worker& worker) const { return worker.barrier > passed_; }
  bool AnyWaiting(const Membership& members) const;
  // Names the workers that are not waiting yet, such as "worker-2, worker-5"; empty if all wait.
  std::string Missing(const Membership& members) const;
  void Pass(const Membership& members);

 private:
  std::uint64_t passed_ = 0;
};

}  // namespace capstan::server
