// AllReduceSection: section [allreduce] of the job file.
//
// Kind:   values.
#pragma once

#include "common/base/types.h"
#include "common/config/job/collective_kind.h"

namespace capstan {

// How workers add up gradients among themselves. In mode allreduce, all keys but local_reduce can change the order or
// the rounding of the sums.
struct AllReduceSection {
  Collective collective = Collective::kAuto;
  double bucket_mib = 8;            // size of the buckets of gradients that are added up during the backward pass
  Encoding wire = Encoding::kFp32;  // kBf16: half the bytes; each worker on the ring rounds the sums
  LocalReduce local_reduce = LocalReduce::kNone;
  bool operator==(const AllReduceSection&) const = default;
};

}  // namespace capstan
