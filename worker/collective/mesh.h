// Mesh: carries bytes from any rank to any other, for the collectives of its group.
//
// Kind:   shared by the group's thread and the mesh's own; a Transfer belongs to one thread.
// Limits: kRanksMax ranks.
// Fails:  the first failure ends the mesh for all ranks, with kTimeout or kUnreachable that names the
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

#include "common/base/status.h"

namespace capstan::collective {

using Deadline = std::chrono::steady_clock::time_point;
using Tag = std::uint64_t;  // a send matches the receive of the same tag

inline constexpr int kRanksMax = 256;

// Returns the name of a rank's worker, for messages.
using NameOfRank = std::function<std::string(int rank)>;

// Carries one message at a time: begin a message with Send or Receive, then Wait, before the next message begins.
class Transfer {
 public:
  virtual ~Transfer() = default;
  // Send and Receive do not wait for the message. `bytes`, at least one, must stay valid until Wait has returned; the
  // bytes to send must not change.
  virtual Status Send(int to, Tag tag, std::span<const std::byte> bytes) = 0;
  virtual Status Receive(int from, Tag tag, std::span<std::byte> bytes) = 0;
  // Waits until the message is done, the mesh has failed, or the deadline given to Mesh::Enter has passed.
  virtual Status Wait() = 0;
};

class Mesh {
 public:
  virtual ~Mesh() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Destroy the transfer before the mesh.
  virtual std::unique_ptr<Transfer> CreateTransfer() = 0;

  // This rank begins the next collective; returns its number. When a deadline passes, ranks that have not begun it are
  // reported as missing.
  virtual std::uint64_t Enter(Deadline deadline) = 0;
  virtual void Leave() = 0;

  // Ends the mesh. Callable from any thread; returns at once. This rank's waiting calls end with kUnreachable, and soon
  // those of the other ranks do, too.
  virtual void Abort() = 0;
  // Returns the first failure, or OK.
  virtual Status failure() = 0;
};

}  // namespace capstan::collective
