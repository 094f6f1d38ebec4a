// TransferLanes: a few messages in flight in each direction, in order.
//
// Kind:   owned by the thread of its group.
// Limits: kLanes messages in each direction. Message number `item` uses lane `item` modulo kLanes.
// Why:    the next receives are posted before the current chunk is added, so that the wire does not wait for sums.
#pragma once

#include <array>
#include <vector>

#include "worker/collective/mesh.h"

namespace capstan::collective {

class TransferLanes {
 public:
  static constexpr std::size_t kLanes = 4;

  explicit TransferLanes(Mesh* mesh);

  // Begins message `item`. First waits for message `item` - kLanes of the same direction, if it is still in flight.
  Status Send(std::size_t item, int to, Tag tag, std::span<const std::byte> bytes);
  Status Receive(std::size_t item, int from, Tag tag, std::span<std::byte> bytes);
  // Wait until the message on the lane of `item` is done; return at once if none is in flight there.
  Status WaitSent(std::size_t item) { return Wait(&sends_[item % kLanes]); }
  Status WaitReceived(std::size_t item) { return Wait(&receives_[item % kLanes]); }
  Status WaitAllSent();

  // Return memory for message `item`, valid until message `item` + kLanes uses it.
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
