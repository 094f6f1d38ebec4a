// Buckets: runs of whole blocks that are reduced together, in the order in which the backward pass finishes them.
//
// Kind:   values.
// Why:    a block is too small to fill a link, and the whole gradient is finished too late to overlap with the backward
//         pass. Boundaries follow from the catalog and the job file, so all workers have the same buckets.
#pragma once

#include <vector>

#include "common/data/catalog.h"

namespace capstan::train {

struct Bucket {
  BlockIndex first = 0, last = 0;  // first and last block of the bucket
  std::uint64_t flat_offset = 0, count = 0;
  bool statistics = false;  // running statistics, not gradients: sent as fp32 whatever the wire encoding is
};

// Returns the buckets from the model's last block to its first. A bucket has at most `bucket_bytes`, or one block.
std::vector<Bucket> CutBuckets(const Catalog& catalog, std::uint64_t bucket_bytes);
// Returns each block's index in `buckets`.
std::vector<std::size_t> BucketOfBlocks(const std::vector<Bucket>& buckets, const Catalog& catalog);

}  // namespace capstan::train
