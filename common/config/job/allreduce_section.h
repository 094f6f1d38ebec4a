// AllReduceSection: what [allreduce] of the job file holds.
//
// Kind:   values.
#pragma once

#include "common/base/types.h"
#include "common/config/job/collective_kind.h"

namespace capstan {

// How gradients travel among the workers. In mode allreduce all but local_reduce change the order or rounding of sums.
struct AllReduceSection {
  Collective collective = Collective::kAuto;
  double bucket_mib = 8;            // of gradients that are added up at a time, while backward goes on
  Encoding wire = Encoding::kFp32;  // kBf16: half the bytes, sums rounded at each worker that they pass
  LocalReduce local_reduce = LocalReduce::kNone;
  bool operator==(const AllReduceSection&) const = default;
};

}  // namespace capstan
