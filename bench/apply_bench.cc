#include "bench/apply_bench.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>

#include "common/base/buffer.h"
#include "common/data/catalog.h"
#include "kernels/stream_store.h"
#include "update/block_update.h"

namespace capstan::bench {

namespace {

constexpr std::size_t kPayloadOffset = 20;  // frames arrive unaligned

// The buffers of one block during a step: the published version and the next one (weights and two optimizer states
// each), the sum of gradients, and two gradients to add.
struct BenchBlock {
  std::array<BufferRef, 3> published, next;
  BufferRef sum;
  std::array<BufferRef, 2> payload;
  const std::byte* Payload(std::size_t i) const { return payload[i]->data() + kPayloadOffset; }
};

constexpr std::size_t kPrefetchBytes = 2048;

using V8 = float __attribute__((vector_size(32)));

using Line = std::array<V8, 2>;  // the numbers of a cache line

template <WritePath kPath>
void Write(float* values, const Line& line) {
  if constexpr (kPath == WritePath::kStreaming) {
    kernels::StreamLine(values, reinterpret_cast<const float*>(&line));
  } else {
    std::memcpy(values, &line, sizeof(line));
  }
}

// Reads every byte of `reads` and writes every byte of `writes`, with almost no arithmetic in between.
template <WritePath kPath, std::size_t kReads>
void Stream(const std::array<const std::byte*, kReads> reads, const std::array<float*, 4> writes) {
  for (std::size_t i = 0; i < kBlockElements; i += 16) {
    std::array<Line, kReads> in;
    for (std::size_t r = 0; r < kReads; ++r) __builtin_prefetch(reads[r] + i * sizeof(float) + kPrefetchBytes);
    for (std::size_t r = 0; r < kReads; ++r) std::memcpy(&in[r], reads[r] + i * sizeof(float), sizeof(Line));
    Line sum = in[3];
    for (std::size_t r = 4; r < kReads; ++r) sum = {sum[0] + in[r][0], sum[1] + in[r][1]};
    for (std::size_t w = 0; w < 3; ++w) Write<kPath>(writes[w] + i, in[w]);
    Write<kPath>(writes[3] + i, sum);
  }
}

class ApplyBench {
 public:
  explicit ApplyBench(std::size_t model_mib) : blocks_(model_mib) {
    for (BenchBlock& block : blocks_) {
      for (BufferRef& buffer : block.published) buffer = Filled(&weights_, 0.01F);
      for (BufferRef& buffer : block.next) buffer = Filled(&weights_, 0.0F);
      block.sum = Filled(&weights_, 0.0F);
      for (BufferRef& buffer : block.payload) buffer = Filled(&payloads_, 0.001F);
    }
  }

  std::vector<BenchBlock>& blocks() { return blocks_; }

 private:
  static BufferRef Filled(BufferPool* pool, float value) {
    BufferRef buffer = pool->Take();
    std::fill_n(buffer.As<float>(), buffer->size() / sizeof(float), value);
    return buffer;
  }

  BufferPool weights_{kBlockElements * sizeof(float)};
  BufferPool payloads_{kBlockElements * sizeof(float) + kPayloadOffset};
  std::vector<BenchBlock> blocks_;
};

template <WritePath kPath, std::size_t kInputs>
void StreamBlock(const BenchBlock& block) {
  std::array<const std::byte*, 3 + kInputs> reads;
  for (std::size_t r = 0; r < 3; ++r) reads[r] = block.published[r]->data();
  for (std::size_t p = 0; p < kInputs; ++p) reads[3 + p] = block.Payload(p);
  Stream<kPath>(
      reads, {block.next[0].As<float>(), block.next[1].As<float>(), block.next[2].As<float>(), block.sum.As<float>()});
}

template <std::size_t kInputs>
void UpdateBlock(const BenchBlock& block, WritePath path) {
  const GroupRule rule{{.kind = OptimizerKind::kAdamW, .weight_decay = 0.01}, 1e-4};
  const UpdateScalars scalars{.step = 10, .mean_scale = 1.0F / 32};
  std::array<StagedInput, kInputs> cover;
  for (SlotIndex slot = 0; slot < kInputs; ++slot) cover[slot] = {{slot, slot + 1}, 16, block.Payload(slot)};
  const SegmentRange segment{0, kBlockElements, true};
  const BlockIn in{block.published[0].As<float>(), {block.published[1].As<float>(), block.published[2].As<float>()}};
  const BlockOut out{
      block.next[0].As<float>(), {block.next[1].As<float>(), block.next[2].As<float>()}, block.sum.As<float>(), path};
  double squares = 0.0;
  ReduceAndUpdate({&rule, 1}, scalars, cover, ReductionTree(kInputs), {&segment, 1}, in, out, {&squares, 1});
}

// Keeps the best time of each block, so that other load on the machine spoils only some blocks of a pass. A pass goes
// over the whole model, so that no block is still in the caches at its next turn.
class BestTimes {
 public:
  explicit BestTimes(std::size_t blocks) : seconds_(blocks, std::numeric_limits<double>::infinity()) {}

  template <class Work>
  void Pass(const std::vector<BenchBlock>& blocks, const Work& work) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const auto start = std::chrono::steady_clock::now();
      work(blocks[i]);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      seconds_[i] = std::min(seconds_[i], took.count());
    }
  }
  double Sum() const { return std::accumulate(seconds_.begin(), seconds_.end(), 0.0); }

 private:
  std::vector<double> seconds_;
};

// Returns the GB/s of the update and, as its limit, of a stream through as many arrays.
template <std::size_t kInputs>
Readings Compare(ApplyBench* bench, int passes) {
  std::vector<BenchBlock>& blocks = bench->blocks();
  const std::size_t arrays = 3 + kInputs + 4;
  const std::uint64_t bytes = blocks.size() * kBlockElements * sizeof(float) * arrays;
  const WritePath path = WritePathFor(bytes);
  BestTimes cached(blocks.size()), streaming(blocks.size()), update(blocks.size());
  for (int pass = 0; pass < passes; ++pass) {
    cached.Pass(blocks, StreamBlock<WritePath::kCached, kInputs>);
    streaming.Pass(blocks, StreamBlock<WritePath::kStreaming, kInputs>);
    update.Pass(blocks, [path](const BenchBlock& block) { UpdateBlock<kInputs>(block, path); });
    for (BenchBlock& block : blocks) std::swap(block.published, block.next);
  }
  const double limit_seconds = std::min(cached.Sum(), streaming.Sum());
  const double gigabytes = static_cast<double>(bytes) * 1e-9;
  return {gigabytes / update.Sum(), gigabytes / limit_seconds};
}

template <std::size_t kInputs>
RowGroup GroupOf(const std::shared_ptr<std::optional<ApplyBench>>& bench, const ApplyOptions& options) {
  RowGroup group;
  group.measurements = {[bench, options]() -> Result<Readings> {
    if (!*bench) bench->emplace(options.model_mib);
    return Compare<kInputs>(&**bench, options.passes);
  }};
  group.rows = {
      {.name = "apply/adamw/" + std::to_string(kInputs) + "-inputs/" + std::to_string(options.model_mib) + "-mib",
       .unit = "GB/s",
       .limit_name = "streaming " + std::to_string(3 + kInputs) + " arrays in and 4 out",
       .needs = {0},
       .sample = [](const std::vector<Readings>& readings) {
         return Sample{readings[0][0], readings[0][1]};
       }}};
  return group;
}

}  // namespace

Plan PlanApply(const ApplyOptions& options) {
  const auto bench = std::make_shared<std::optional<ApplyBench>>();  // made when it is first needed
  return {{GroupOf<1>(bench, options), GroupOf<2>(bench, options)}, options.rounds};
}

}  // namespace capstan::bench
