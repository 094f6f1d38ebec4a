// BucketAdder: adds up what the workers of a machine bring to a step, bucket by bucket, at the first of them.
//
// Kind:   owned by one thread. All members begin the same buckets of the same steps in one order.
// Limits: ahead_max() buckets that are begun and not finished, and one more.
// Fails:  as the group that it goes through; it is over then, and what the sums hold is nobody's business.
// Parity: as AddUp, wherever it adds.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "worker/machine/local_sums.h"

namespace capstan::train {

// Members may be far apart in a step, as their slots are. Who is gone, or does not answer, ends the group.
inline constexpr std::chrono::hours kApartMax{24};

struct AdderOptions {
  const Catalog* catalog = nullptr;                               // outlives all adders
  Encoding encoding = Encoding::kFp32;                            // the job's
  std::uint64_t count_max = 0;                                    // numbers of the largest bucket
  std::chrono::milliseconds patience = std::chrono::seconds(10);  // with a bucket that all members have come to
};

// What one worker has to do with a step. It outlives all that is begun of it.
struct LocalStep {
  LocalPlan plan;
  std::vector<Node> nodes;              // of this worker's parts, by number
  std::vector<const std::byte*> parts;  // their flat arrays; null: no samples
  std::vector<float*> sums;             // the first worker's flat arrays, by sum; the others have none
};

class BucketAdder {
 public:
  virtual ~BucketAdder() = default;

  // Whether members are to tell each other that they have come to a bucket, because it cannot wait for them.
  virtual bool is_impatient() const = 0;
  virtual std::size_t ahead_max() const = 0;
  // All parts of this bucket are final, and stay until it is finished.
  virtual Status Begin(const LocalStep& step, const Bucket& bucket) = 0;
  // The oldest bucket that was begun. At the first worker `ready` is called for each of its blocks, once all sums of it
  // are there, each at the front of the block's place.
  virtual Status Finish(const std::function<void(BlockIndex)>& ready) = 0;
};

}  // namespace capstan::train
