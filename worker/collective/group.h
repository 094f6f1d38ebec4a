// Group: collectives among worker processes. All members make the same calls in the same order.
//
// Kind:   owned by one thread; only Abort may come from another thread. A call blocks until it is done.
// Fails:  kTimeout when the deadline passed, kUnreachable when a member was lost or has aborted; both name the missing
//         ranks. A group that has failed stays failed: later calls return the first failure. kInvalid for wrong
//         arguments, which has no effect.
// Parity: sums are of float. The order of additions depends only on the element's index, the array's length, the number
//         of members and, in Reduce, the root. All members get the same bits.
#pragma once

#include <memory>
#include <span>

#include "common/base/types.h"
#include "worker/collective/mesh.h"

namespace capstan::collective {

struct GroupOptions {
  // Encoding in messages of AllReduce and AllGather; sums are in float. The other calls always send floats.
  Encoding wire = Encoding::kFp32;
  // Bytes of one message; more for huge arrays. The result's bits do not depend on it. Smaller chunks cost more in
  // wake-ups than they gain in overlap.
  std::size_t chunk_bytes = 2u << 20;
};

// The part of `count` elements that belongs to a rank, in AllReduce and AllGather.
struct Part {
  std::size_t begin = 0, count = 0;
};
inline Part PartOf(std::size_t count, int size, int rank) {
  const auto at = [&](int r) {
    const auto ranks = static_cast<std::size_t>(size), of = static_cast<std::size_t>(r);
    return count / ranks * of + count % ranks * of / ranks;
  };
  return {at(rank), at(rank + 1) - at(rank)};
}

class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Replaces `data` by the sum of all members' data, with the same bits on all members.
  virtual Status AllReduce(std::span<float> data, Deadline deadline) = 0;
  // Fills `data` on all members: each rank's part of `data` (PartOf) is copied from that rank.
  virtual Status AllGather(std::span<float> data, Deadline deadline) = 0;
  virtual Status Broadcast(std::span<float> data, int root, Deadline deadline) = 0;
  // Replaces the root's `data` by the sum; the other members' data does not change.
  virtual Status Reduce(std::span<float> data, int root, Deadline deadline) = 0;
  // Copies every member's `mine` to the root's `all`, in rank order; `all` is ignored on other members.
  virtual Status Gather(std::span<const float> mine, int root, std::span<float> all, Deadline deadline) = 0;
  virtual Status Barrier(Deadline deadline) = 0;

  virtual void Abort() = 0;
  // Returns the first failure, or OK; callable from any thread.
  virtual Status failure() const = 0;
  // Returns the payload bytes sent by all calls so far; for the owner's thread.
  virtual std::uint64_t bytes_sent() const = 0;
};

// Creates this rank's end of the group of all ranks of `mesh`. Call it once for each rank's Mesh object.
std::unique_ptr<Group> CreateGroup(std::shared_ptr<Mesh> mesh, const GroupOptions& options = {});

}  // namespace capstan::collective
