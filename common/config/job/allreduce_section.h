// AllReduceSection: section [allreduce] of the job file.
//
// Kind:   values.
#pragma once

#include "common/base/types.h"
#include "common/config/job/collective_kind.h"

namespace capstan {

// How gradients travel among the workers. In mode allreduce all but local_reduce change the order or rounding of sums.
struct AllReduceSection {
  Collective collective = Collective::kAuto;
  double bucket_mib = 8;            // size of the buckets of gradients that are added up during the backward pass
  Encoding wire = Encoding::kFp32;  // kBf16: half the bytes; each worker on the ring rounds the sums
  LocalReduce local_reduce = LocalReduce::kNone;
  bool operator==(const AllReduceSection&) const = default;
};

}  // namespace capstan
