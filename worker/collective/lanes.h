// Lanes: a few messages in each direction on their way at once, in order.
//
// Kind:   owned by the thread of its group.
// Limits: kLanes each way. A message's place is its number modulo kLanes.
// Why:    what is received next is asked for before what came is worked on, so that the wire does not wait for sums.
#pragma once

#include <array>

#include "worker/collective/mesh.h"

namespace capstan::collective {

class Lanes {
 public:
  static constexpr std::size_t kLanes = 4;

  Lanes(Mesh* mesh, GroupIndex group);

  // Message `item`; the one kLanes before it in its direction is waited for, if it is still on its way.
  Status Send(std::size_t item, int to, Tag tag, std::span<const std::byte> bytes);
  Status Receive(std::size_t item, int from, Tag tag, std::span<std::byte> bytes);
  // Nothing to wait for where nothing was begun.
  Status WaitSent(std::size_t item) { return Wait(&sends_[item % kLanes]); }
  Status WaitReceived(std::size_t item) { return Wait(&receives_[item % kLanes]); }
  Status WaitAllSent();

  // Memory for the message of this number, until the one kLanes after it.
  std::span<std::byte> OutgoingMemory(std::size_t item, std::size_t bytes) {
    return Memory(&sends_[item % kLanes], bytes);
  }
  std::span<std::byte> IncomingMemory(std::size_t item, std::size_t bytes) {
    return Memory(&receives_[item % kLanes], bytes);
  }

  std::uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  struct Lane {
    std::unique_ptr<Transfer> transfer;
    std::vector<std::byte> memory;  // grows to the largest message
    bool busy = false;
  };
  static Status Wait(Lane* lane);
  static std::span<std::byte> Memory(Lane* lane, std::size_t bytes);

  std::array<Lane, kLanes> sends_, receives_;
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace capstan::collective
