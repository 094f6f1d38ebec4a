#include "update/block_update.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "common/base/status.h"
#include "common/data/encoding.h"
#include "kernels/stream_store.h"
#include "update/median.h"
#include "update/optimizer_formulas.h"

namespace capstan {

namespace {

using formulas::Clamped;
using formulas::TakesRatio;
using formulas::V8;
using formulas::WithOptimizer;
using formulas::WithStatistic;
using D4 = double __attribute__((vector_size(32)));

constexpr std::size_t kLanes = 16;  // lanes of a sum of squares
// Multiples of kLanes. When a tile is hashed, the first elements of the next one (kPrefetchElements) are being fetched;
// all of it, if an input is copied tile by tile. Measured: longer tiles make the pass 10 % faster if results are
// streamed, and 3 % slower if an input is copied, because the nearest cache then has to hold more.
constexpr std::size_t kTileElements = 1024, kLongTileElements = 4096;

constexpr std::uint64_t kCachedBytesMax = 64 << 20;  // measured: streaming gains above 90 MiB, loses a tenth far below

template <class V>
V Load(const void* values, std::size_t index) {
  V v;
  std::memcpy(&v, static_cast<const std::byte*>(values) + index * sizeof(float), sizeof(V));
  return v;
}

template <class V>
void Store(float* values, std::size_t index, V v) {
  std::memcpy(values + index, &v, sizeof(V));
}

// Writes 16 results of an update. Writing a whole cache line per array at a time gains a tenth of the bandwidth.
template <WritePath kPath>
void WriteLine(float* line, V8 low, V8 high) {
  if constexpr (kPath == WritePath::kStreaming) {
    const V8 values[2] = {low, high};
    kernels::StreamLine(line, reinterpret_cast<const float*>(values));
  } else {
    Store(line, 0, low);
    Store(line, 8, high);
  }
}

// How many elements ahead the pass prefetches. The processor's own prefetch stops at the end of each page. Prefetching
// beyond the end of an array is harmless.
constexpr std::size_t kPrefetchElements = 512;

// ---- Where an element of the tree sum comes from.

struct OneInput {
  const void* values;
  float factor;
  const void* soon = static_cast<const float*>(values) + kPrefetchElements;  // is prefetched while values are used
  template <class V>
  V At(std::size_t i) const {
    return Load<V>(values, i) * factor;
  }
  void Prefetch(std::size_t i) const { __builtin_prefetch(static_cast<const float*>(soon) + i); }
};

struct TwoInputs {
  OneInput left, right;  // of a tile
  template <class V>
  V At(std::size_t i) const {
    return left.At<V>(i) + right.At<V>(i);
  }
  void Prefetch(std::size_t i) const {
    left.Prefetch(i);
    right.Prefetch(i);
  }
};

OneInput InputOf(const StagedInput& input) {
  return {input.values, input.node.IsLeaf() ? static_cast<float>(input.samples) : 1.0F};
}

template <class Source>
void CopySum(const Source& source, std::size_t begin, std::size_t count, float* out) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    source.Prefetch(begin + i);
    Store(out, i, source.template At<V8>(begin + i));
    Store(out, i + 8, source.template At<V8>(begin + i + 8));
  }
  for (; i < count; ++i) Store(out, i, source.template At<float>(begin + i));
}

// The sum of squares of a segment so far, in lanes: element e of the segment belongs to lane e mod kLanes.
struct SquareLanes {
  D4 quads[kLanes / 4] = {};

  void Add(V8 low, V8 high) {
    AddQuad(0, low, 0);
    AddQuad(1, low, 4);
    AddQuad(2, high, 0);
    AddQuad(3, high, 4);
  }
  void AddQuad(int quad, V8 g, int first) {
    D4 d;
    for (int lane = 0; lane < 4; ++lane) d[lane] = static_cast<double>(g[first + lane]);
    quads[quad] += d * d;
  }
  double Fold() const {
    const D4 four = (quads[0] + quads[2]) + (quads[1] + quads[3]);
    return (four[0] + four[2]) + (four[1] + four[3]);
  }
};

struct SegmentSquares {
  SquareLanes gradient;
  SquareLanes weights, direction;  // only for optimizers with a trust ratio
};

// ---- The pass.

struct GradientFactors {
  float mean_scale, limit, clip;  // applied one after the other, each product rounded; clip < 0: the group maximizes
};

// A block's arrays, starting at one of its elements.
struct Arrays {
  const float* weights_in;
  const float* state_in[kStatesMax];
  float* weights_out;
  float* weights_copy = nullptr;  // receives the new weights, too; or null
  float* state_out[kStatesMax];
  float* sum_out;  // or null
  WritePath path;

  Arrays(const BlockIn& in, const BlockOut& out, int states, std::size_t offset)
      : weights_in(in.weights + offset),
        state_in{},
        weights_out(out.weights + offset),
        state_out{},
        sum_out(out.sum == nullptr ? nullptr : out.sum + offset),
        path(out.path) {
    for (int s = 0; s < states; ++s) {
      state_in[s] = in.state[s] + offset;
      state_out[s] = out.state[s] + offset;
    }
  }

  void Prefetch(std::size_t i, int states) const {
    __builtin_prefetch(weights_in + i + kPrefetchElements);
    for (int s = 0; s < states; ++s) __builtin_prefetch(state_in[s] + i + kPrefetchElements);
  }

  // Whether to stream the results: only aligned arrays, and not in place, where the lines are in the cache already.
  bool CanStream() const {
    auto any_bit = reinterpret_cast<std::uintptr_t>(weights_out) | reinterpret_cast<std::uintptr_t>(sum_out);
    for (const float* state : state_out) any_bit |= reinterpret_cast<std::uintptr_t>(state);
    return path == WritePath::kStreaming && weights_out != weights_in && any_bit % kernels::kStreamLineBytes == 0;
  }
};

// An update's results for one element or for eight.
template <class V>
struct Updated {
  V sum;   // the tree sum
  V mean;  // averaged gradient before clipping
  V weights;
  V state[kStatesMax];
  V weights_before, direction;  // only for optimizers with a trust ratio
};

// Computes the update of one element or eight, from element `i` on. It is always inlined, because otherwise every
// factor would be loaded from memory twice per 16 elements.
template <class V, class Source, class Update>
[[gnu::always_inline]] inline Updated<V> UpdateAt(std::size_t i, const Source& source, const Update& update,
                                                  const GradientFactors& factors, const Arrays& at) {
  Updated<V> u{};
  u.sum = source.template At<V>(i);
  u.mean = u.sum * factors.mean_scale;
  u.weights = Load<V>(at.weights_in, i);
  for (int s = 0; s < Update::kStates; ++s) u.state[s] = Load<V>(at.state_in[s], i);
  const V gradient = Clamped(u.mean, factors.limit) * factors.clip;
  if constexpr (TakesRatio<Update>) {
    u.weights_before = u.weights;
    u.direction = update(gradient, u.weights, u.state);
  } else {
    update(gradient, u.weights, u.state);
  }
  return u;
}

// Updates `count` elements, starting at a multiple of kLanes within their segment. Only a segment's last call may have
// a count that is not a multiple of kLanes.
template <WritePath kPath, class Source, class Update>
void UpdateRangeBy(std::size_t count, const Source source, const Update update, const GradientFactors factors,
                   const Arrays at, SegmentSquares* segment_squares) {
  SegmentSquares squares = *segment_squares;
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    source.Prefetch(i);
    at.Prefetch(i, Update::kStates);
    const Updated<V8> low = UpdateAt<V8>(i, source, update, factors, at);
    const Updated<V8> high = UpdateAt<V8>(i + 8, source, update, factors, at);
    squares.gradient.Add(low.mean, high.mean);
    if constexpr (TakesRatio<Update>) {
      squares.weights.Add(low.weights_before, high.weights_before);
      squares.direction.Add(low.direction, high.direction);
    }
    if (at.sum_out != nullptr) WriteLine<kPath>(at.sum_out + i, low.sum, high.sum);
    WriteLine<kPath>(at.weights_out + i, low.weights, high.weights);
    if (at.weights_copy != nullptr) WriteLine<WritePath::kCached>(at.weights_copy + i, low.weights, high.weights);
    for (int s = 0; s < Update::kStates; ++s) WriteLine<kPath>(at.state_out[s] + i, low.state[s], high.state[s]);
  }
  if (i < count) {
    // A lane without an element adds +0, which changes no bit.
    float means[kLanes] = {}, weights_before[kLanes] = {}, directions[kLanes] = {};
    for (std::size_t lane = 0; i < count; ++i, ++lane) {
      const Updated<float> u = UpdateAt<float>(i, source, update, factors, at);
      means[lane] = u.mean;
      weights_before[lane] = u.weights_before;
      directions[lane] = u.direction;
      if (at.sum_out != nullptr) at.sum_out[i] = u.sum;
      at.weights_out[i] = u.weights;
      if (at.weights_copy != nullptr) at.weights_copy[i] = u.weights;
      for (int s = 0; s < Update::kStates; ++s) at.state_out[s][i] = u.state[s];
    }
    squares.gradient.Add(Load<V8>(means, 0), Load<V8>(means, 8));
    if constexpr (TakesRatio<Update>) {
      squares.weights.Add(Load<V8>(weights_before, 0), Load<V8>(weights_before, 8));
      squares.direction.Add(Load<V8>(directions, 0), Load<V8>(directions, 8));
    }
  }
  *segment_squares = squares;
}

// Makes what workers pull of `count` new weights, which are in a near cache. `offset`: of the first one in its block.
void MakeToSend(const WeightsToSend& to_send, const float* weights, std::size_t offset, std::size_t count) {
  if (to_send.encoding == Encoding::kFp32) return to_send.hasher->Add(std::as_bytes(std::span(weights, count)));
  const std::size_t width = BytesPerNumber(to_send.encoding);
  std::byte* narrow = to_send.narrow + offset * width;
  Encode(to_send.encoding, {weights, count}, narrow);
  to_send.hasher->Add({narrow, count * width});
}

// Updates the `count` elements of a block from `offset` on, which are at most a long tile.
template <class Source, class Update>
void UpdateTile(std::size_t offset, std::size_t count, const Source& source, const Update& update,
                const GradientFactors& factors, const BlockIn& in, const BlockOut& out,
                SegmentSquares* segment_squares) {
  Arrays at(in, out, Update::kStates, offset);
  const bool sends = out.to_send.hasher != nullptr;
  if (!at.CanStream()) {
    UpdateRangeBy<WritePath::kCached>(count, source, update, factors, at, segment_squares);
    if (sends) MakeToSend(out.to_send, at.weights_out, offset, count);
    return;
  }
  alignas(kernels::kStreamLineBytes) float weights[kLongTileElements];  // streamed weights are in no cache
  if (sends) at.weights_copy = weights;
  UpdateRangeBy<WritePath::kStreaming>(count, source, update, factors, at, segment_squares);
  if (sends) MakeToSend(out.to_send, weights, offset, count);
}

// Calls use(update, factors) with the update and the factors of a segment's elements.
template <class Use>
void WithUpdate(const GroupRule& group, const UpdateScalars& scalars, const SegmentRange& segment, const Use& use) {
  constexpr float kNoLimit = std::numeric_limits<float>::infinity();
  if (segment.kind == TensorKind::kParameter) {
    const float clip = scalars.clip < 1.0F ? scalars.clip : 1.0F;
    const GradientFactors factors{scalars.mean_scale, scalars.clip_value > 0 ? scalars.clip_value : kNoLimit,
                                  group.rule.maximize ? -clip : clip};
    WithOptimizer(group, scalars, segment, [&](const auto& update) { use(update, factors); });
    return;
  }
  const GradientFactors factors{scalars.statistic_scale, kNoLimit, 1.0F};
  if (group.rule.kind == OptimizerKind::kExternal) return use(formulas::MeanUpdate{}, factors);
  WithStatistic(StateCount(group.rule), [&](const auto& update) { use(update, factors); });
}

// The sum of squares that is reported for a segment. A segment of statistics reports 0, because statistics do not count
// in the gradient's norm; but if its sum is not finite, it reports the sum, so that the bad value is noticed.
double SquaresOf(const SegmentRange& segment, const SegmentSquares& lanes) {
  const double squares = lanes.gradient.Fold();
  return segment.kind == TensorKind::kStatistic && std::isfinite(squares) ? 0.0 : squares;
}

// Copies `count` values of one node, starting at `begin`.
void CopyValue(const StagedInput& input, std::size_t begin, std::size_t count, float* out) {
  if (input.encoding == Encoding::kFp32) return CopySum(InputOf(input), begin, count, out);
  Decode(input.encoding, input.values + begin * BytesPerNumber(input.encoding), count, out);
  CopySum(OneInput{out, InputOf(input).factor}, 0, count, out);
}

// Computes the sum of `node` for `count` elements, starting at `begin`. The inputs for `node` are at the front of
// `rest`, and are removed from `rest`. Returns false, with `out` unspecified, if none of the node's slots has samples.
bool SumTile(Node node, std::span<const StagedInput>* rest, std::size_t begin, std::size_t count, float* out) {
  CAPSTAN_CHECK(!rest->empty());
  const StagedInput& next = rest->front();
  if (next.node == node) {
    *rest = rest->subspan(1);
    if (next.samples > 0) CopyValue(next, begin, count, out);
    return next.samples > 0;
  }
  const SlotIndex split = SplitPoint(node);
  const bool has_left = SumTile({node.begin, split}, rest, begin, count, out);
  float right[kTileElements];
  const bool has_right = SumTile({split, node.end}, rest, begin, count, right);
  if (has_left && has_right) {
    CopySum(TwoInputs{{out, 1.0F}, {right, 1.0F}}, 0, count, out);
  } else if (has_right) {
    std::memcpy(out, right, count * sizeof(float));
  }
  return has_left || has_right;
}

// Computes what the job makes of the contributions of all slots, for `count` elements starting at `begin`.
void CombineTile(std::span<const StagedInput> cover, const ReductionTree& tree, std::size_t begin, std::size_t count,
                 float* out) {
  switch (tree.aggregation()) {
    case Aggregation::kMedian: return MedianTile(cover, begin, count, out);
    case Aggregation::kMean:
    case Aggregation::kNone: SumTile(tree.root(), &cover, begin, count, out);
  }
}

// Gives the values of one node as fp32, tile by tile. Values of 16 bits, and those that may change, go through a tile.
class NodeValues {
 public:
  explicit NodeValues(const StagedInput& input) : input_(input) {}

  // Whether the values are used where they lie.
  bool are_in_place() const { return input_.check == nullptr && input_.encoding == Encoding::kFp32; }
  std::size_t tile_max() const { return are_in_place() ? kLongTileElements : kTileElements; }

  // `begin`: the tile's first element within the block. The result is valid until the next call.
  OneInput Tile(std::size_t begin, std::size_t count) {
    const std::size_t bytes = count * BytesPerNumber(input_.encoding);
    const std::byte* values = input_.values + begin * BytesPerNumber(input_.encoding);
    const std::byte* const next_tile = values + bytes;
    if (input_.check != nullptr) {
      std::memcpy(bytes_, values, bytes);
      input_.check->read.Add({bytes_, bytes});
      values = bytes_;
    }
    const float factor = InputOf(input_).factor;
    if (input_.encoding != Encoding::kFp32) {
      Decode(input_.encoding, values, count, numbers_);
      return {numbers_, factor, next_tile};
    }
    return are_in_place() ? OneInput{values, factor} : OneInput{values, factor, next_tile};
  }

 private:
  const StagedInput& input_;
  alignas(kernels::kStreamLineBytes) std::byte bytes_[kTileElements * sizeof(float)];
  alignas(kernels::kStreamLineBytes) float numbers_[kTileElements];
};

// Calls use(begin, count) for each tile of a segment; `begin`: the tile's first element within the block.
template <class Use>
void ForTiles(const SegmentRange& segment, std::size_t tile_elements, const Use& use) {
  const std::size_t end = std::size_t{segment.offset} + segment.count;
  for (std::size_t begin = segment.offset; begin < end; begin += tile_elements)
    use(begin, std::min(tile_elements, end - begin));
}

// Updates a segment. tile(begin, count) gives the tree sum of a tile, as a OneInput or TwoInputs, up to a count of
// `tile_max`.
template <class Tile>
SegmentSquares UpdateSegment(const GroupRule& group, const UpdateScalars& scalars, const Tile& tile,
                             std::size_t tile_max, const SegmentRange& segment, const BlockIn& in,
                             const BlockOut& out) {
  SegmentSquares squares;
  WithUpdate(group, scalars, segment, [&](const auto& update, const GradientFactors& factors) {
    using Update = std::decay_t<decltype(update)>;
    const bool streams = Arrays(in, out, Update::kStates, segment.offset).CanStream();
    ForTiles(segment, streams ? tile_max : kTileElements, [&](std::size_t begin, std::size_t count) {
      UpdateTile(begin, count, tile(begin, count), update, factors, in, out, &squares);
    });
  });
  return squares;
}

// Updates a segment from one node.
SegmentSquares UpdateSegmentFromOne(const GroupRule& group, const UpdateScalars& scalars, const StagedInput& input,
                                    const SegmentRange& segment, const BlockIn& in, const BlockOut& out) {
  NodeValues values(input);
  const auto tile = [&](std::size_t begin, std::size_t count) { return values.Tile(begin, count); };
  return UpdateSegment(group, scalars, tile, values.tile_max(), segment, in, out);
}

// The same from two. Whatever the tree, the sum of two inputs is left + right.
SegmentSquares UpdateSegmentFromTwo(const GroupRule& group, const UpdateScalars& scalars,
                                    const std::array<const StagedInput*, 2>& inputs, const SegmentRange& segment,
                                    const BlockIn& in, const BlockOut& out) {
  NodeValues left(*inputs[0]), right(*inputs[1]);
  const auto tile = [&](std::size_t begin, std::size_t count) {
    return TwoInputs{left.Tile(begin, count), right.Tile(begin, count)};
  };
  return UpdateSegment(group, scalars, tile, std::min(left.tile_max(), right.tile_max()), segment, in, out);
}

// The same from a median, or from more than two inputs. For each tile the inputs are combined first.
SegmentSquares UpdateSegmentFromTree(const GroupRule& group, const UpdateScalars& scalars,
                                     std::span<const StagedInput> cover, const ReductionTree& tree,
                                     const SegmentRange& segment, const BlockIn& in, const BlockOut& out) {
  float sum[kTileElements];
  const auto tile = [&](std::size_t begin, std::size_t count) {
    CombineTile(cover, tree, begin, count, sum);
    return OneInput{sum, 1.0F};
  };
  return UpdateSegment(group, scalars, tile, kTileElements, segment, in, out);
}

void ReportTrust(const GroupRule& group, const SegmentSquares& squares, std::size_t segment,
                 const TrustSquares& trust) {
  if (trust.weights.empty() || !TakesTrustRatio(group.rule.kind)) return;
  trust.weights[segment] = squares.weights.Fold();
  trust.direction[segment] = squares.direction.Fold();
}

void CheckSizes(const TrustSquares& trust, std::size_t segments) {
  CAPSTAN_CHECK(trust.weights.size() == trust.direction.size());
  CAPSTAN_CHECK(trust.weights.empty() || trust.weights.size() == segments);
}

// A pass that hashes needs segments that cover the block in order, because it goes through them one after the other.
void CheckOrder(std::span<const SegmentRange> segments) {
  std::size_t end = 0;
  for (const SegmentRange& segment : segments) {
    CAPSTAN_CHECK(segment.offset == end);
    end += segment.count;
  }
}

}  // namespace

WritePath WritePathFor(std::uint64_t bytes_per_update) {
  return bytes_per_update > kCachedBytesMax ? WritePath::kStreaming : WritePath::kCached;
}

void AddNodes(const StagedInput& left, const StagedInput& right, std::size_t count, float* out) {
  const bool both = left.samples > 0 && right.samples > 0;
  if (!both) {
    if (left.samples > 0 || right.samples > 0) CopyValue(left.samples > 0 ? left : right, 0, count, out);
    return;
  }
  if (left.encoding == Encoding::kFp32 && right.encoding == Encoding::kFp32) {
    return CopySum(TwoInputs{InputOf(left), InputOf(right)}, 0, count, out);
  }
  for (std::size_t begin = 0; begin < count; begin += kTileElements) {
    const std::size_t some = std::min(kTileElements, count - begin);
    float values[2][kTileElements];
    CopyValue(left, begin, some, values[0]);
    CopyValue(right, begin, some, values[1]);
    CopySum(TwoInputs{{values[0], 1.0F}, {values[1], 1.0F}}, 0, some, out + begin);
  }
}

bool TakesChecks(std::span<const StagedInput> cover, Aggregation aggregation) {
  const auto live =
      std::count_if(cover.begin(), cover.end(), [](const StagedInput& input) { return input.samples > 0; });
  return live <= 2 && IsMean(aggregation);
}

void ReduceAndUpdate(std::span<const GroupRule> rules, const UpdateScalars& scalars, std::span<const StagedInput> cover,
                     const ReductionTree& tree, std::span<const SegmentRange> segments, const BlockIn& in,
                     const BlockOut& out, std::span<double> segment_squares, const TrustSquares& trust) {
  CAPSTAN_CHECK(segment_squares.size() == segments.size() && scalars.step > 0);
  CheckSizes(trust, segments.size());
  std::array<const StagedInput*, 2> live{};
  std::size_t live_count = 0;
  bool hashes = out.to_send.hasher != nullptr;
  const bool from_tree = !TakesChecks(cover, tree.aggregation());
  for (const StagedInput& input : cover) {
    if (input.samples == 0) continue;
    if (live_count < live.size()) live[live_count] = &input;
    ++live_count;
    hashes = hashes || input.check != nullptr;
    CAPSTAN_CHECK(!from_tree || input.check == nullptr);
  }
  CAPSTAN_CHECK(live_count > 0);
  if (hashes) CheckOrder(segments);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    CAPSTAN_CHECK(segments[i].group < rules.size());
    const GroupRule& group = rules[segments[i].group];
    const SegmentSquares squares = from_tree ? UpdateSegmentFromTree(group, scalars, cover, tree, segments[i], in, out)
                                   : live_count == 1
                                       ? UpdateSegmentFromOne(group, scalars, *live[0], segments[i], in, out)
                                       : UpdateSegmentFromTwo(group, scalars, live, segments[i], in, out);
    segment_squares[i] = SquaresOf(segments[i], squares);
    ReportTrust(group, squares, i, trust);
  }
  kernels::FinishStreaming();
}

void UpdateFromSum(std::span<const GroupRule> rules, const UpdateScalars& scalars, const float* sum,
                   std::span<const SegmentRange> segments, const BlockIn& in, const BlockOut& out,
                   const TrustSquares& trust) {
  CAPSTAN_CHECK(scalars.step > 0);
  CheckSizes(trust, segments.size());
  if (out.to_send.hasher != nullptr) CheckOrder(segments);
  BlockOut without_sum = out;
  without_sum.sum = nullptr;
  const auto tile = [&](std::size_t begin, std::size_t) { return OneInput{sum + begin, 1.0F}; };
  for (std::size_t i = 0; i < segments.size(); ++i) {
    CAPSTAN_CHECK(segments[i].group < rules.size());
    const GroupRule& group = rules[segments[i].group];
    ReportTrust(group, UpdateSegment(group, scalars, tile, kLongTileElements, segments[i], in, without_sum), i, trust);
  }
  kernels::FinishStreaming();
}

}  // namespace capstan
