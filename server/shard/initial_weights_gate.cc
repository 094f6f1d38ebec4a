#include "server/shard/initial_weights_gate.h"

#include <cmath>
#include <cstring>
#include <span>
#include <string>

#include "common/base/hash.h"
#include "common/wire/messages/upload_block.h"
#include "server/shard/shard_context.h"

namespace capstan::server {

namespace {

// Calls visit(tensor, segment) for each segment of the block whose weights a worker sends.
template <class Visit>
void ForEachFromWorker(const Catalog& catalog, BlockIndex block, const Visit& visit) {
  const Block& place = catalog.blocks()[block];
  for (std::uint32_t i = 0; i < place.segment_count; ++i) {
    const Segment& segment = catalog.segments()[place.first_segment + i];
    const TensorSpec& tensor = catalog.tensors()[segment.tensor];
    if (tensor.init.kind == InitKind::kFromWorker) visit(tensor, segment);
  }
}

bool IsFromWorker(const Catalog& catalog, BlockIndex block) {
  bool any = false;
  ForEachFromWorker(catalog, block, [&](const TensorSpec&, const Segment&) { any = true; });
  return any;
}

// Whether `count` floats are all finite; `bytes` may be unaligned.
bool AllFinite(const std::byte* bytes, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    float value = 0.0F;
    std::memcpy(&value, bytes + std::size_t{i} * sizeof value, sizeof value);
    if (!std::isfinite(value)) return false;
  }
  return true;
}

}  // namespace

InitialWeightsGate::InitialWeightsGate(const Catalog& catalog, const std::vector<BlockIndex>& blocks,
                                       BlockStore::Begin begin)
    : open_(begin == BlockStore::Begin::kToBeLoaded || !catalog.is_given()) {
  for (BlockIndex block : blocks) {
    if (IsFromWorker(catalog, block)) from_worker_.insert(block);
  }
  if (!open_) missing_ = from_worker_;
}

Status InitialWeightsGate::Check(const ShardContext& shard, const UploadBlock& upload, const Slice& payload) const {
  const std::string block = "block " + std::to_string(upload.block);
  const auto index = shard.index_of.find(upload.block);
  if (index == shard.index_of.end()) return Invalid(block + " is not on " + shard.name());
  if (!from_worker_.contains(upload.block)) return Invalid(block + " has no tensor whose first weights are given");
  const std::size_t wanted = shard.store->count(index->second) * sizeof(float);
  if (payload.size != wanted) {
    return Invalid(block + " takes " + std::to_string(wanted) + " bytes, not " + std::to_string(payload.size));
  }
  if (Hash64(payload.bytes()) != upload.payload_hash) {
    return Corrupt(block + ": the first weights do not match their hash");
  }
  Status status;
  ForEachFromWorker(*shard.catalog, upload.block, [&](const TensorSpec& tensor, const Segment& segment) {
    const std::byte* const bytes = payload.data + std::size_t{segment.block_offset} * sizeof(float);
    if (!status.ok() || AllFinite(bytes, segment.count)) return;
    status = Invalid(block + ": a first weight of tensor \"" + tensor.name + "\" is not finite");
  });
  return status;
}

bool InitialWeightsGate::Take(const ShardContext& shard, const UploadBlock& upload, const Slice& payload) {
  if (missing_.erase(upload.block) == 0) return false;
  const std::size_t index = shard.index_of.at(upload.block);
  ForEachFromWorker(*shard.catalog, upload.block, [&](const TensorSpec&, const Segment& segment) {
    shard.store->SetInitialWeights(index, segment.block_offset,
                                   payload.bytes().subspan(std::size_t{segment.block_offset} * sizeof(float),
                                                           std::size_t{segment.count} * sizeof(float)));
  });
  return true;
}

}  // namespace capstan::server
