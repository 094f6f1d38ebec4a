#include "worker/collective/buckets.h"

namespace capstan::train {

std::vector<Bucket> CutBuckets(const Catalog& catalog, std::uint64_t bucket_bytes) {
  std::vector<Bucket> buckets;
  for (auto index = static_cast<BlockIndex>(catalog.blocks().size()); index-- > 0;) {
    const Block& block = catalog.blocks()[index];
    const bool statistics = block.kind == TensorKind::kStatistic;
    Bucket* open = buckets.empty() ? nullptr : &buckets.back();
    const bool joins = open != nullptr && open->statistics == statistics &&
                       block.flat_offset + block.count == open->flat_offset &&
                       (open->count + block.count) * sizeof(float) <= bucket_bytes;
    if (!joins) {
      buckets.push_back({index, index, block.flat_offset, block.count, statistics});
      continue;
    }
    open->first = index;
    open->flat_offset = block.flat_offset;
    open->count += block.count;
  }
  return buckets;
}

std::vector<std::size_t> BucketOfBlocks(const std::vector<Bucket>& buckets, const Catalog& catalog) {
  std::vector<std::size_t> bucket_of(catalog.blocks().size());
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    for (BlockIndex block = buckets[i].first; block <= buckets[i].last; ++block) bucket_of[block] = i;
  }
  return bucket_of;
}

}  // namespace capstan::train
