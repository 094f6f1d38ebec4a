// Group: collectives among worker processes. All members make the same calls in the same order.
//
// Kind:   owned by one thread; Abort alone may come from another one. A call blocks until it is done.
// Fails:  kTimeout when the deadline passed, kUnreachable when a member was lost or has aborted; both name the
//         missing ranks. A group that has failed stays failed: later calls return the first failure. So does every
//         group that shares its mesh. kInvalid for an argument that cannot be, which changes nothing.
// Parity: sums are of float, in an order that follows from an element's place alone; all members get the same bits.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/types.h"
#include "worker/collective/mesh.h"

namespace capstan::collective {

struct GroupOptions {
  // How AllReduce, ReduceScatter and AllGather travel; they are summed as floats. The other calls are always exact.
  Encoding wire = Encoding::kFp32;
  // On the wire. Bits do not depend on it; smaller ones cost more wake-ups than they hide of the sums.
  std::size_t chunk_bytes = 2u << 20;
};

// Which of `count` elements belong to a rank, in ReduceScatter and AllGather.
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

  // `data` becomes the sum of all members' data, with one set of bits on all.
  virtual Status AllReduce(std::span<float> data, Deadline deadline) = 0;
  // This rank's part of `data` becomes the sum; what the rest holds then is nobody's business.
  virtual Status ReduceScatter(std::span<float> data, Deadline deadline) = 0;
  // Each rank's part of `data` comes to all.
  virtual Status AllGather(std::span<float> data, Deadline deadline) = 0;
  virtual Status Broadcast(std::span<float> data, int root, Deadline deadline) = 0;
  // `data` of the root becomes the sum; that of the others stays.
  virtual Status Reduce(std::span<float> data, int root, Deadline deadline) = 0;
  // `all` of the root gets everybody's `mine`, one behind the other; the others' `all` is not looked at.
  virtual Status Gather(std::span<const float> mine, int root, std::span<float> all, Deadline deadline) = 0;
  virtual Status Barrier(Deadline deadline) = 0;

  // A group of some of these ranks, counted anew in the order given, with these options or else those of this group.
  // All members call it with the same arguments; those who are not among the ranks get none. Sends nothing. Only the
  // group of all ranks can be split.
  virtual Result<std::unique_ptr<Group>> Split(const std::vector<int>& ranks,
                                               const std::optional<GroupOptions>& options = std::nullopt) = 0;

  virtual void Abort() = 0;
  // The first one, if there was one; from any thread.
  virtual Status failure() const = 0;
  // Of payload, by all calls so far; for the owner's thread.
  virtual std::uint64_t bytes_sent() const = 0;
};

// A group of all ranks of `mesh`; one for each mesh.
std::unique_ptr<Group> CreateGroup(std::shared_ptr<Mesh> mesh, const GroupOptions& options = {});

}  // namespace capstan::collective
