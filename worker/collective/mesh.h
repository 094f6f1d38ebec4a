// Mesh: bytes from any rank to any other, under the collectives of a group.
//
// Kind:   shared: each group has a thread of its own; a Transfer belongs to one thread.
// Limits: kRanksMax ranks, kGroupsMax groups on one mesh.
// Fails:  once, and for all ranks and groups: kTimeout or kUnreachable, naming the ranks that are missing. Every
//         later call returns that first failure, and no memory of a caller is written to after its call has failed.
// Why:    what is ours (ring, chains, their order of additions) knows no transport, and a transport knows no sums.
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
using GroupIndex = std::uint32_t;  // on one mesh; 0 has all ranks
using Tag = std::uint64_t;         // a message meets the receive of the same tag

inline constexpr int kRanksMax = 256;
inline constexpr GroupIndex kGroupsMax = 15;

// What people call a rank: its worker's name.
using NameOfRank = std::function<std::string(int rank)>;

// A place for one message on its way. Begin one, then wait for it, again and again.
class Transfer {
 public:
  virtual ~Transfer() = default;
  // Both begin, and return at once; `bytes` stay as they are until Wait has returned. One byte or more.
  virtual Status Send(int to, Tag tag, std::span<const std::byte> bytes) = 0;
  virtual Status Receive(int from, Tag tag, std::span<std::byte> bytes) = 0;
  // Until what was begun is done, or the deadline of the group's call has passed.
  virtual Status Wait() = 0;
};

class Mesh {
 public:
  virtual ~Mesh() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Before its first use; the same on all members. `members` are ranks of the mesh.
  virtual void OpenGroup(GroupIndex group, std::vector<int> members) = 0;
  // Destroy it before the mesh.
  virtual std::unique_ptr<Transfer> CreateTransfer(GroupIndex group) = 0;

  // This rank begins the group's next collective, whose number it returns. Members that have not begun it when a
  // deadline passes are the missing ones.
  virtual std::uint64_t Enter(GroupIndex group, Deadline deadline) = 0;
  virtual void Leave(GroupIndex group) = 0;

  // From any thread, at once: ends what waits here, and soon on the other ranks, with kUnreachable.
  virtual void Abort() = 0;
  // The first failure, if there was one.
  virtual Status failure() = 0;
};

}  // namespace capstan::collective
