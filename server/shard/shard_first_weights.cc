// How a shard gets first weights from a worker: block by block, and the first copy of a block counts. No worker reads them
// before a snapshot of version 0 exists on all shards.
#include <cmath>
#include <cstring>
#include <span>

#include "common/base/hash.h"
#include "common/wire/messages/assign.h"
#include "server/shard/parked_pull.h"
#include "server/shard/shard.h"

namespace capstan::server {

namespace {

// Calls visit(offset in the block, count) for each range of the block whose weights a worker gives.
template <class Visit>
void ForEachGiven(const Catalog& catalog, BlockIndex block, const Visit& visit) {
  const Block& place = catalog.blocks()[block];
  for (std::uint32_t i = 0; i < place.segment_count; ++i) {
    const Segment& segment = catalog.segments()[place.first_segment + i];
    const TensorSpec& tensor = catalog.tensors()[segment.tensor];
    if (tensor.init.kind == InitKind::kGiven) visit(tensor, segment);
  }
}

// The payload may be unaligned.
bool AllFinite(const std::byte* bytes, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    float value = 0.0F;
    std::memcpy(&value, bytes + std::size_t{i} * sizeof value, sizeof value);
    if (!std::isfinite(value)) return false;
  }
  return true;
}

}  // namespace

Status Shard::CheckAssign(const Assign& assign, const Slice& payload) const {
  const std::string block = "block " + std::to_string(assign.block);
  const auto local = context_.local_of.find(assign.block);
  if (local == context_.local_of.end())
    return Invalid(block + " is not on shard " + std::to_string(context_.options.shard));
  if (!first_weights_.is_given(assign.block)) return Invalid(block + " has no tensor whose first weights are given");
  const std::size_t wanted = context_.store->count(local->second) * sizeof(float);
  if (payload.size != wanted) {
    return Invalid(block + " takes " + std::to_string(wanted) + " bytes, not " + std::to_string(payload.size));
  }
  if (Hash64(payload.bytes()) != assign.payload_hash) {
    return Corrupt(block + ": the first weights do not match their hash");
  }
  Status status;
  ForEachGiven(*context_.catalog, assign.block, [&](const TensorSpec& tensor, const Segment& segment) {
    const std::byte* const bytes = payload.data + std::size_t{segment.block_offset} * sizeof(float);
    if (!status.ok() || AllFinite(bytes, segment.count)) return;
    status = Invalid(block + ": a first weight of tensor \"" + tensor.name + "\" is not finite");
  });
  return status;
}

void Shard::On(PeerId from, const Assign& assign, const Slice& payload, Instant now, Outbox* out) {
  if (WorkersUpdate(context_.options.mode)) return OnMade(from, assign, payload, now, out);
  if (Status status = CheckAssign(assign, payload); !status.ok()) {
    (status.code() == Code::kCorrupt ? context_.metrics->pushes_corrupt : context_.metrics->pushes_invalid).Add(1);
    return context_.Refuse(from, status.code(), status.message(), out, assign.block);
  }
  acknowledgements_.AddUpload(from, Step{0}, assign.block);
  if (!first_weights_.is_missing(assign.block)) return;
  const std::size_t local = context_.local_of[assign.block];
  ForEachGiven(*context_.catalog, assign.block, [&](const TensorSpec&, const Segment& segment) {
    context_.store->SetFirstWeights(local, segment.block_offset,
                                    payload.bytes().subspan(std::size_t{segment.block_offset} * sizeof(float),
                                                            std::size_t{segment.count} * sizeof(float)));
  });
  first_weights_.Arrived(assign.block);
  PinFirstWeights(now, out);
}

// Writes version 0 once it is complete and an earlier snapshot is no longer being written.
void Shard::PinFirstWeights(Instant now, Outbox* out) {
  if (!first_pin_waits_ || !first_weights_.complete() || writing_) return;
  first_pin_waits_ = false;
  PinSnapshot({context_.generation, context_.served.version}, now, out);
}

// A manifest names version 0: pulls that waited for it are answered.
void Shard::FirstWeightsAreKept(Instant now, Outbox* out) {
  if (first_weights_.kept()) return;
  first_weights_.Keep();
  AnswerParkedPulls(now, out);
}

}  // namespace capstan::server
