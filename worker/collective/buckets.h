// Buckets: runs of whole blocks that are reduced at a time, in the order in which backward finishes them.
//
// Kind:   values.
// Why:    a block is too small to fill a link, the whole gradient too large to begin with early. Boundaries follow from
//         the catalog and the job file, so that all workers have the same.
#pragma once

#include <vector>

#include "common/data/catalog.h"

namespace capstan::train {

struct Bucket {
  BlockIndex first = 0, last = 0;  // of its blocks
  std::uint64_t flat_offset = 0, count = 0;
  bool statistics = false;  // travel as fp32 whatever the wire
};

// From the last block to the first.
std::vector<Bucket> CutBuckets(const Catalog& catalog, std::uint64_t bucket_bytes);
// The bucket of each block, by index.
std::vector<std::size_t> BucketOfBlocks(const std::vector<Bucket>& buckets, const Catalog& catalog);

}  // namespace capstan::train
