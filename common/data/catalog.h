// Catalog: the list of a model's tensors, and the blocks it is cut into.
//
// Kind:   values; immutable once made.
// Limits: kTensorsMax tensors, kElementsMax elements in all, kGroupsMax groups.
// Fails:  Create: kInvalid; the message names the tensor at fault, if there is one.
// Why:    block boundaries depend only on the catalog, so the number of workers, shards or threads changes no bit.
//
// Tensors lie one after the other, in catalog order, in one flat array of fp32 elements ("flat space"). A block is a
// contiguous range of it: at most `block_elements` of one large tensor, or several small neighbours of one kind (each
// under a quarter of a block). A segment is one tensor's part of one block: the unit of hyper-parameters and of norms.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"

namespace capstan {

inline constexpr std::uint32_t kBlockElements = 262144;  // 1 MiB of fp32
inline constexpr std::size_t kTensorsMax = 1 << 16;
inline constexpr std::uint64_t kElementsMax = std::uint64_t{1} << 40;

inline constexpr std::uint32_t kGroupsMax = 1024;

// How a tensor gets its initial weights. kFromWorker: one worker sends them before the first step.
enum class InitKind : std::uint8_t { kZeros = 0, kOnes = 1, kNormal = 2, kUniform = 3, kFromWorker = 4 };

// The initial weights of a tensor. Unless a worker sends them, they are a function of (seed, tensor name, element).
struct Init {
  InitKind kind = InitKind::kZeros;
  float scale = 0.0F;  // kNormal: standard deviation; kUniform: values in [-scale, scale)
  bool operator==(const Init&) const = default;
};

// kStatistic: values that training observes, such as batch-norm's running mean and variance. Each slot pushes a mean
// over its samples; a step's mean over all samples moves the kept value by kStatisticMomentum of the difference.
// Statistics have no optimizer, no clipping and no loss scale, and travel as fp32.
enum class TensorKind : std::uint8_t { kParameter = 0, kStatistic = 1 };
inline constexpr float kStatisticMomentum = 0.1F;

struct TensorSpec {
  std::string name;
  std::vector<std::int64_t> shape;  // row-major; every extent >= 1
  Init init;
  bool decay = true;        // whether weight decay applies
  std::uint32_t group = 0;  // 0: hyper-parameters from the job file; g: the g-th set of each push
  TensorKind kind = TensorKind::kParameter;

  std::uint64_t ElementCount() const;
  std::string ToString() const;  // name f32[2, 3] normal(0.020000)
  bool operator==(const TensorSpec&) const = default;
};

struct Segment {
  TensorIndex tensor = 0;
  BlockIndex block = 0;
  std::uint64_t tensor_offset = 0;  // first element within the tensor
  std::uint32_t block_offset = 0;   // first element within the block
  std::uint32_t count = 0;
};

struct Block {
  std::uint64_t flat_offset = 0;  // first element in flat space
  std::uint32_t count = 0;        // elements
  std::uint32_t first_segment = 0;
  std::uint32_t segment_count = 0;
  TensorKind kind = TensorKind::kParameter;  // all tensors of the block are of this kind

  // Returns the encoding on the wire of the block's weights and of one slot's gradient, in a job of encoding `job`.
  Encoding EncodingIn(Encoding job) const { return kind == TensorKind::kStatistic ? Encoding::kFp32 : job; }
};

class Catalog {
 public:
  static Result<Catalog> Create(std::vector<TensorSpec> tensors, std::uint32_t block_elements = kBlockElements);

  const std::vector<TensorSpec>& tensors() const { return tensors_; }
  const std::vector<Block>& blocks() const { return blocks_; }
  const std::vector<Segment>& segments() const { return segments_; }  // in catalog order, grouped by block
  std::uint64_t element_count() const { return element_count_; }
  // How many sets of hyper-parameters each push brings, one per group; 0: the job file sets all hyper-parameters.
  std::uint32_t group_count() const { return group_count_; }
  // Whether a worker sends the initial weights of any tensor.
  bool is_given() const { return is_given_; }
  std::uint32_t block_elements() const { return block_elements_; }
  // Whether tensors [first, last] exist, at least one.
  bool Has(TensorIndex first, TensorIndex last) const { return first <= last && last < tensors_.size(); }
  std::uint64_t flat_offset(TensorIndex tensor) const { return tensor_offsets_[tensor]; }
  // The first and the last block that has elements of the tensor.
  BlockIndex first_block(TensorIndex tensor) const { return first_blocks_[tensor]; }
  BlockIndex last_block(TensorIndex tensor) const { return last_blocks_[tensor]; }
  // A hash of the block size and of all members of each TensorSpec.
  std::uint64_t hash() const { return hash_; }

 private:
  Catalog() = default;
  void CutBlocks();

  std::vector<TensorSpec> tensors_;
  std::vector<Block> blocks_;
  std::vector<Segment> segments_;
  std::vector<std::uint64_t> tensor_offsets_;
  std::vector<BlockIndex> first_blocks_, last_blocks_;
  std::uint64_t element_count_ = 0;
  std::uint32_t group_count_ = 0;
  bool is_given_ = false;
  std::uint32_t block_elements_ = 0;
  std::uint64_t hash_ = 0;
};

// Describes the first tensor that differs, or else the different counts; "" if the lists are equal. An example:
// "tensor 3 differs: this worker declares h.3.w f32[2, 3] zeros, the job has h.3.w f32[2, 2] zeros".
std::string DescribeDifference(const std::vector<TensorSpec>& job, const std::vector<TensorSpec>& theirs);

// Returns the shard of every block, by block: a pure function of (catalog, number of shards). In catalog order, each
// block goes to the shard with the fewest elements so far. So shards are balanced, and a pull in forward order keeps
// all shards busy.
std::vector<ShardIndex> PlaceBlocks(const Catalog& catalog, std::uint32_t shard_count);

}  // namespace capstan
