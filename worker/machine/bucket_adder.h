// BucketAdder: adds up the gradients of a machine's workers for one step, bucket by bucket, at the first worker.
//
// Kind:   owned by one thread. All members begin the same buckets of the same steps in the same order.
// Limits: at most ahead_max() + 1 buckets are begun and not finished.
// Fails:  as the group that it uses. The group is then over, and the sums are undefined.
// Parity: the bits of AddUp, on host and device.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "worker/machine/machine_sums.h"

namespace capstan::train {

// How long members wait for each other. They may reach a step at very different times, so this is long. A lost or
// silent member ends the group sooner.
inline constexpr std::chrono::hours kApartMax{24};

struct AdderOptions {
  const Catalog* catalog = nullptr;                               // outlives all adders
  Encoding encoding = Encoding::kFp32;                            // the job's encoding
  std::uint64_t count_max = 0;                                    // elements of the largest bucket
  std::chrono::milliseconds patience = std::chrono::seconds(10);  // for a bucket that all members have reached
};

// One worker's part in a step. It must outlive all buckets begun for it.
struct MachineStep {
  MachinePlan plan;
  std::vector<Node> nodes;              // the tree nodes of this worker's parts
  std::vector<const std::byte*> parts;  // flat arrays, in the order of `nodes`; null: the part has no samples
  std::vector<float*> sums;             // flat arrays, in the order of plan.sums; empty except at the first worker
};

class BucketAdder {
 public:
  virtual ~BucketAdder() = default;

  // Whether all members must have reached a bucket before any of them begins it, because the adder's waits are short.
  virtual bool is_impatient() const = 0;
  virtual std::size_t ahead_max() const = 0;
  // Starts a bucket. This worker's parts of the bucket are final, and must not change until the bucket is finished.
  virtual Status Begin(const MachineStep& step, const Bucket& bucket) = 0;
  // Finishes the oldest begun bucket. At the first worker, calls `ready` for each block of the bucket when all sums of
  // that block are in MachineStep::sums. A block's values lie at the front of the block's place in the flat array.
  virtual Status Finish(const std::function<void(BlockIndex)>& ready) = 0;
};

}  // namespace capstan::train
