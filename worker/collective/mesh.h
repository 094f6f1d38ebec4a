// Mesh: carries bytes from any rank to any other, for the collectives of its groups.
//
// Kind:   shared: each group has its own thread; a Transfer belongs to one thread.
// Limits: kRanksMax ranks, kGroupsMax groups on one mesh.
// Fails:  the first failure ends the mesh for all ranks and groups, with kTimeout or kUnreachable that names the
//         missing ranks. Every later call returns that failure. A caller's memory is not written to after its call has
//         failed.
// Why:    our algorithms (ring, chains, their order of additions) do not depend on a transport, and a transport does
//         not add.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace capstan::collective {

using Deadline = std::chrono::steady_clock::time_point;
using GroupIndex = std::uint32_t;  // number of a group on its mesh; group 0 has all ranks
using Tag = std::uint64_t;         // a send matches the receive of the same tag

inline constexpr int kRanksMax = 256;
inline constexpr GroupIndex kGroupsMax = 15;

// Returns the name of a rank's worker, for messages.
using NameOfRank = std::function<std::string(int rank)>;

// Carries one message at a time: begin one with Send or Receive, then Wait; then the next.
class Transfer {
 public:
  virtual ~Transfer() = default;
  // Both return at once; `bytes` must stay valid and unchanged until Wait has returned. At least one byte.
  virtual Status Send(int to, Tag tag, std::span<const std::byte> bytes) = 0;
  virtual Status Receive(int from, Tag tag, std::span<std::byte> bytes) = 0;
  // Waits until the message is done or the deadline of the group's call has passed.
  virtual Status Wait() = 0;
};

class Mesh {
 public:
  virtual ~Mesh() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Call it before the group's first use, with the same arguments on all members. `members` are ranks of the mesh.
  virtual void OpenGroup(GroupIndex group, std::vector<int> members) = 0;
  // Destroy the transfer before the mesh.
  virtual std::unique_ptr<Transfer> CreateTransfer(GroupIndex group) = 0;

  // Begins the group's next collective on this rank; returns its number. When a deadline passes, members that have not
  // begun the collective are reported as missing.
  virtual std::uint64_t Enter(GroupIndex group, Deadline deadline) = 0;
  virtual void Leave(GroupIndex group) = 0;

  // Ends the mesh. Callable from any thread; returns at once. Calls that wait here end with kUnreachable, and soon
  // those on other ranks do, too.
  virtual void Abort() = 0;
  // Returns the first failure, or OK.
  virtual Status failure() = 0;
};

}  // namespace capstan::collective
