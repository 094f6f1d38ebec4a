#include "common/data/catalog.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <queue>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/base/hash.h"
#include "common/base/utf8.h"

namespace capstan {

namespace {

const char* InitName(InitKind kind) {
  switch (kind) {
    case InitKind::kZeros: return "zeros";
    case InitKind::kOnes: return "ones";
    case InitKind::kNormal: return "normal";
    case InitKind::kUniform: return "uniform";
    case InitKind::kFromWorker: return "given";
  }
  return "?";
}

std::uint64_t HashTensors(const std::vector<TensorSpec>& tensors, std::uint32_t block_elements) {
  Hasher hasher;
  hasher.Add(block_elements);
  hasher.Add(tensors.size());
  for (const TensorSpec& tensor : tensors) {
    hasher.Add(tensor.name.size());
    hasher.Add(tensor.name);
    hasher.Add(tensor.shape.size());
    for (std::int64_t extent : tensor.shape) hasher.Add(static_cast<std::uint64_t>(extent));
    hasher.Add(static_cast<std::uint64_t>(tensor.init.kind));
    hasher.Add(std::bit_cast<std::uint32_t>(tensor.init.scale));
    hasher.Add(tensor.decay ? 1 : 0);
    if (tensor.group != 0) hasher.Add(tensor.group);
    if (tensor.kind == TensorKind::kStatistic) hasher.Add("statistic");
  }
  return hasher.Digest();
}

Status CheckTensor(const TensorSpec& tensor) {
  if (tensor.name.empty() || tensor.name.size() > 512) {
    return Invalid("tensor \"" + Excerpt(tensor.name) + "\": a name has 1 to 512 bytes");
  }
  if (PrintableLine(tensor.name) != tensor.name) {
    return Invalid("tensor \"" + Excerpt(tensor.name) + "\": a name is text without control bytes");
  }
  if (tensor.shape.size() > 8) return Invalid("tensor \"" + tensor.name + "\": more than 8 dimensions");
  std::uint64_t count = 1;
  for (std::int64_t extent : tensor.shape) {
    if (extent < 1 || static_cast<std::uint64_t>(extent) > kElementsMax / count) {
      return Invalid("tensor \"" + tensor.name + "\": extent " + std::to_string(extent) +
                     " is below 1 or makes the tensor too large");
    }
    count *= static_cast<std::uint64_t>(extent);
  }
  return {};
}

}  // namespace

std::uint64_t TensorSpec::ElementCount() const {
  std::uint64_t count = 1;
  for (std::int64_t extent : shape) count *= static_cast<std::uint64_t>(extent);
  return count;
}

std::string TensorSpec::ToString() const {
  std::string text = Excerpt(name) + " f32[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  text += std::string("] ") + InitName(init.kind);
  if (init.kind == InitKind::kNormal || init.kind == InitKind::kUniform) text += "(" + std::to_string(init.scale) + ")";
  if (group != 0) text += " group " + std::to_string(group);
  if (kind == TensorKind::kStatistic) text += " statistic";
  return text + (decay ? "" : " no_decay");
}

Result<Catalog> Catalog::Create(std::vector<TensorSpec> tensors, std::uint32_t block_elements) {
  if (tensors.empty() || tensors.size() > kTensorsMax) {
    return Invalid("a catalog has 1 to " + std::to_string(kTensorsMax) + " tensors, not " +
                   std::to_string(tensors.size()));
  }
  if (block_elements == 0) return Invalid("block_elements is 0");
  std::unordered_set<std::string> names;
  Catalog catalog;
  for (const TensorSpec& tensor : tensors) {
    CAPSTAN_RETURN_IF_ERROR(CheckTensor(tensor));
    if (!names.insert(tensor.name).second) return Invalid("tensor \"" + tensor.name + "\" is declared twice");
    if ((tensor.group == 0) != (tensors.front().group == 0) || tensor.group > kGroupsMax) {
      return Invalid("tensor \"" + tensor.name + "\" is of optimizer group " + std::to_string(tensor.group) +
                     "; either every tensor has one, from 1 to " + std::to_string(kGroupsMax) + ", or none has");
    }
    catalog.group_count_ = std::max(catalog.group_count_, tensor.group);
    catalog.is_given_ = catalog.is_given_ || tensor.init.kind == InitKind::kFromWorker;
    catalog.tensor_offsets_.push_back(catalog.element_count_);
    catalog.element_count_ += tensor.ElementCount();
    if (catalog.element_count_ > kElementsMax) return Invalid("the catalog holds too many elements");
  }
  catalog.tensors_ = std::move(tensors);
  catalog.block_elements_ = block_elements;
  catalog.hash_ = HashTensors(catalog.tensors_, block_elements);
  catalog.CutBlocks();
  return catalog;
}

void Catalog::CutBlocks() {
  const std::uint64_t small = block_elements_ / 4;  // tensors below this share blocks
  bool open = false;                                // whether the last block may take another small tensor
  for (TensorIndex index = 0; index < tensors_.size(); ++index) {
    const std::uint64_t count = tensors_[index].ElementCount();
    const bool shares = count < small;
    const TensorKind kind = tensors_[index].kind;
    std::uint64_t offset = 0;
    while (offset < count) {
      const bool fits =
          open && shares && blocks_.back().kind == kind && blocks_.back().count + count <= block_elements_;
      if (!fits) {
        blocks_.push_back({tensor_offsets_[index] + offset, 0, static_cast<std::uint32_t>(segments_.size()), 0, kind});
      }
      Block& block = blocks_.back();
      const auto taken = static_cast<std::uint32_t>(std::min<std::uint64_t>(count - offset, block_elements_));
      const auto block_index = static_cast<BlockIndex>(blocks_.size() - 1);
      segments_.push_back({index, block_index, offset, block.count, taken});
      if (offset == 0) first_blocks_.push_back(block_index);
      block.count += taken;
      ++block.segment_count;
      offset += taken;
      open = shares;
    }
    last_blocks_.push_back(static_cast<BlockIndex>(blocks_.size() - 1));
  }
}

std::string DescribeDifference(const std::vector<TensorSpec>& job, const std::vector<TensorSpec>& theirs) {
  const std::size_t shared = std::min(job.size(), theirs.size());
  for (std::size_t i = 0; i < shared; ++i) {
    if (job[i] == theirs[i]) continue;
    return "tensor " + std::to_string(i) + " differs: this worker declares " + theirs[i].ToString() + ", the job has " +
           job[i].ToString();
  }
  if (job.size() == theirs.size()) return "";
  const TensorSpec& extra = job.size() > shared ? job[shared] : theirs[shared];
  return "this worker declares " + std::to_string(theirs.size()) + " tensors, the job has " +
         std::to_string(job.size()) + "; the first that one side lacks is " + extra.ToString();
}

std::vector<ShardIndex> PlaceBlocks(const Catalog& catalog, std::uint32_t shard_count) {
  CAPSTAN_CHECK(shard_count > 0);
  using Load = std::pair<std::uint64_t, ShardIndex>;  // bytes and shard: of equal loads, the lowest shard comes first
  std::vector<Load> loads;
  for (ShardIndex shard = 0; shard < shard_count; ++shard) loads.emplace_back(0, shard);
  std::priority_queue<Load, std::vector<Load>, std::greater<>> lightest(std::greater<>(), std::move(loads));
  std::vector<ShardIndex> placement;
  placement.reserve(catalog.blocks().size());
  for (const Block& block : catalog.blocks()) {
    const auto [load, shard] = lightest.top();
    lightest.pop();
    lightest.emplace(load + block.count, shard);
    placement.push_back(shard);
  }
  return placement;
}

}  // namespace capstan
