#include "server/shard/block_store.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/hash.h"
#include "common/data/encoding.h"
#include "common/data/number16.h"
#include "server/shard/initial_weights.h"

namespace capstan::server {

namespace {

std::size_t LargestBlock(const Catalog& catalog) {
  std::size_t largest = 1;
  for (const Block& block : catalog.blocks()) largest = std::max<std::size_t>(largest, block.count);
  return largest;
}

bool Passed(const StagedInput& input) { return input.check == nullptr || input.check->passed(); }

}  // namespace

BlockStore::BlockStore(const Catalog& catalog, std::vector<BlockIndex> blocks, const OptimizerRule& rule,
                       std::uint64_t seed, Begin begin, Encoding encoding, const std::shared_ptr<SharedMemory>& memory)
    : states_(KeptStates(rule)),
      pool_(LargestBlock(catalog) * sizeof(float)),
      weights_pool_(LargestBlock(catalog) * sizeof(float), memory),
      narrow_pool_(LargestBlock(catalog) * sizeof(Bf16), memory),
      indices_(std::move(blocks)) {
  blocks_.resize(indices_.size());
  std::uint64_t elements = 0;
  for (std::size_t index = 0; index < indices_.size(); ++index) {
    const Block& block = catalog.blocks()[indices_[index]];
    Entry& entry = blocks_[index];
    entry.count = block.count;
    entry.encoding = block.EncodingIn(encoding);
    entry.published = TakeVersion();
    for (int i = 0; i < states_ && begin == Begin::kVersion0; ++i)
      std::memset(entry.published.state[i]->data(), 0, entry.published.state[i]->size());
    for (std::uint32_t s = 0; s < block.segment_count; ++s) {
      const Segment& segment = catalog.segments()[block.first_segment + s];
      const TensorSpec& tensor = catalog.tensors()[segment.tensor];
      entry.segments.push_back({segment.block_offset, segment.count, tensor.decay, std::max(tensor.group, 1U) - 1,
                                tensor.kind, segment.tensor});
      if (begin == Begin::kToBeLoaded) continue;
      FillInitialWeights(seed, tensor, segment.tensor_offset,
                         std::span(entry.published.weights.As<float>() + segment.block_offset, segment.count));
    }
    elements += block.count;
  }
  const int arrays = 2 * (1 + states_) + 1 + 2;  // two versions, the kept sum, two contributions
  path_ = WritePathFor(elements * sizeof(float) * arrays);
}

void BlockStore::Reserve(std::size_t versions, bool sums) {
  std::size_t narrow = 0;
  weights_pool_.Reserve(versions * blocks_.size());
  for (const Entry& entry : blocks_) narrow += entry.encoding == Encoding::kFp32 ? 0 : 1;
  narrow_pool_.Reserve(2 * narrow);  // a snapshot needs none of them
  pool_.Reserve((versions * static_cast<std::size_t>(states_) + (sums ? 1 : 0)) * blocks_.size());
}

BlockStore::BlockVersion BlockStore::TakeVersion() {
  BlockVersion version;
  version.weights = weights_pool_.Take();
  for (int i = 0; i < states_; ++i) version.state[i] = pool_.Take();
  return version;
}

BlockIn BlockStore::In(const BlockVersion& version) const {
  BlockIn in{version.weights.As<const float>(), {nullptr, nullptr}};
  for (int i = 0; i < states_; ++i) in.state[i] = version.state[i].As<const float>();
  return in;
}

BlockOut BlockStore::Out(const BlockVersion& version, const BufferRef& sum) const {
  BlockOut out{version.weights.As<float>(), {nullptr, nullptr}, sum ? sum.As<float>() : nullptr, path_};
  for (int i = 0; i < states_; ++i) out.state[i] = version.state[i].As<float>();
  return out;
}

bool BlockStore::Prepare(std::size_t index, std::span<const StagedInput> cover, const ReductionTree& tree,
                         std::span<const GroupRule> rules, const UpdateScalars& scalars, std::span<double> squares,
                         const TrustSquares& trust, bool likely) {
  Entry& entry = blocks_[index];
  entry.next = TakeVersion();
  if (!entry.sum) entry.sum = pool_.Take();
  BlockOut out = Out(entry.next, entry.sum);
  Hasher hasher;
  if (likely) out.to_send = BeginToSend(entry, &entry.next, &hasher);
  ReduceAndUpdate(rules, scalars, cover, tree, entry.segments, In(entry.published), out, squares, trust);
  if (!std::all_of(cover.begin(), cover.end(), Passed)) return entry.next = {}, false;
  if (likely) FinishToSend(entry, &entry.next, hasher);
  return true;
}

void BlockStore::PrepareAgain(std::size_t index, std::span<const GroupRule> rules, const UpdateScalars& scalars,
                              const TrustSquares& trust, bool likely) {
  Entry& entry = blocks_[index];
  CAPSTAN_CHECK(entry.next.weights && entry.sum);
  if (entry.next.weights->reference_count() > 1) entry.next.weights = weights_pool_.Take();  // in flight to a worker
  entry.next.ForgetHashes();
  BlockOut out = Out(entry.next, BufferRef());
  Hasher hasher;
  if (likely) out.to_send = BeginToSend(entry, &entry.next, &hasher);
  UpdateFromSum(rules, scalars, entry.sum.As<const float>(), entry.segments, In(entry.published), out, trust);
  if (likely) FinishToSend(entry, &entry.next, hasher);
}

bool BlockStore::PutNext(std::size_t index, std::uint32_t array, std::span<const std::byte> values) {
  Entry& entry = blocks_[index];
  CAPSTAN_CHECK(array < array_count() && values.size() == entry.count * sizeof(float));
  if (!entry.next.weights) entry.next = TakeVersion();
  const std::uint32_t bit = 1U << array;
  if ((entry.next_arrays & bit) == 0) {
    BufferRef& place = array == 0 ? entry.next.weights : entry.next.state[array - 1];
    std::memcpy(place->data(), values.data(), values.size());
    entry.next_arrays |= bit;
  }
  return entry.next_arrays == (1U << array_count()) - 1;
}

void BlockStore::PublishPrepared() {
  for (Entry& entry : blocks_) {
    if (!entry.next.weights) continue;
    entry.published = std::exchange(entry.next, {});
    entry.next_arrays = 0;
  }
}

void BlockStore::DropPrepared() {
  for (Entry& entry : blocks_) {
    entry.next = {};
    entry.next_arrays = 0;
  }
}

bool BlockStore::ApplyNow(std::size_t index, const StagedInput& input, std::span<const GroupRule> rules,
                          const UpdateScalars& scalars, std::span<double> squares) {
  Entry& entry = blocks_[index];
  const BlockVersion source = entry.published;
  BlockVersion target = source;
  // `published`, `source` and `target` are 3 references. A further one means that the weights are being sent, or that
  // a snapshot with this array is being written: the update then goes to a new buffer.
  const auto is_kept = [&](const BufferRef& array) { return input.check != nullptr || array->reference_count() > 3; };
  if (is_kept(source.weights)) target.weights = weights_pool_.Take();
  for (int i = 0; i < states_; ++i) {
    if (is_kept(source.state[i])) target.state[i] = pool_.Take();
  }
  target.ForgetHashes();
  BlockOut out = Out(target, BufferRef());
  out.path = WritePath::kCached;
  Hasher hasher;
  out.to_send = BeginToSend(entry, &target, &hasher);
  ReduceAndUpdate(rules, scalars, std::span(&input, 1), ReductionTree(1), entry.segments, In(source), out, squares);
  if (!Passed(input)) return false;
  FinishToSend(entry, &target, hasher);
  entry.published = std::move(target);
  return true;
}

WeightsToSend BlockStore::BeginToSend(const Entry& entry, BlockVersion* version, Hasher* hasher) {
  if (entry.encoding == Encoding::kFp32) return {.hasher = hasher};
  version->narrow = narrow_pool_.Take();
  return {.hasher = hasher, .encoding = entry.encoding, .narrow = version->narrow->data()};
}

void BlockStore::FinishToSend(const Entry& entry, BlockVersion* version, const Hasher& hasher) {
  if (entry.encoding == Encoding::kFp32) {
    version->weights_hash = hasher.Digest();
  } else {
    version->narrow_hash = hasher.Digest();
  }
}

void BlockStore::HashWeights(const Entry& entry, BlockVersion* version) {
  version->weights_hash = Hash64({version->weights->data(), entry.count * sizeof(float)});
}

void BlockStore::Narrow(const Entry& entry, BlockVersion* version) {
  version->narrow = narrow_pool_.Take();
  Encode(entry.encoding, {version->weights.As<const float>(), entry.count}, version->narrow->data());
  version->narrow_hash = Hash64({version->narrow->data(), entry.count * BytesPerNumber(entry.encoding)});
}

void BlockStore::SetInitialWeights(std::size_t index, std::uint32_t offset, std::span<const std::byte> values) {
  BlockVersion& version = blocks_[index].published;
  std::memcpy(version.weights.As<float>() + offset, values.data(), values.size());
  version.ForgetHashes();
}

BlockStore::Sendable BlockStore::ToSend(std::size_t index, Encoding encoding) {
  return ToSend(blocks_[index], &blocks_[index].published, encoding);
}

BlockStore::Sendable BlockStore::PreparedToSend(std::size_t index, Encoding encoding) {
  return ToSend(blocks_[index], &blocks_[index].next, encoding);
}

BlockStore::Sendable BlockStore::ToSend(const Entry& entry, BlockVersion* version, Encoding encoding) {
  if (encoding == Encoding::kFp32) {
    if (!version->weights_hash) HashWeights(entry, version);
    return {{version->weights, version->weights->data(), entry.count * sizeof(float)}, *version->weights_hash};
  }
  CAPSTAN_CHECK(encoding == entry.encoding);
  if (!version->narrow) Narrow(entry, version);
  return {{version->narrow, version->narrow->data(), entry.count * BytesPerNumber(encoding)}, version->narrow_hash};
}

BlockStore::Sendable BlockStore::StateToSend(std::size_t index, std::uint32_t state) {
  Slice values = Arrays(index)[1 + state];
  std::optional<std::uint64_t>& hash = blocks_[index].published.state_hash[state];
  if (!hash) hash = Hash64(values.bytes());
  return {std::move(values), *hash};
}

void BlockStore::BlockVersion::ForgetHashes() {
  weights_hash.reset();
  for (std::optional<std::uint64_t>& hash : state_hash) hash.reset();
  narrow = {};
}

std::array<Slice, kBlockArraysMax> BlockStore::Arrays(std::size_t index) const {
  const Entry& entry = blocks_[index];
  const std::size_t bytes = entry.count * sizeof(float);
  std::array<Slice, kBlockArraysMax> arrays;
  arrays[0] = {entry.published.weights, entry.published.weights->data(), bytes};
  for (int i = 0; i < states_; ++i) {
    arrays[i + 1] = {entry.published.state[i], entry.published.state[i]->data(), bytes};
  }
  return arrays;
}

std::uint64_t BlockStore::parameter_bytes() const {
  std::uint64_t bytes = 0;
  for (const Entry& block : blocks_) bytes += block.count * sizeof(float);
  return bytes;
}

std::uint64_t BlockStore::Digest() const {
  Hasher hasher;
  for (const Entry& entry : blocks_) {
    const std::size_t bytes = entry.count * sizeof(float);
    hasher.Add(std::span<const std::byte>(entry.published.weights->data(), bytes));
    for (int i = 0; i < states_; ++i) hasher.Add(std::span<const std::byte>(entry.published.state[i]->data(), bytes));
  }
  return hasher.Digest();
}

}  // namespace capstan::server
