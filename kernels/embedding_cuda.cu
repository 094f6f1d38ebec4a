// Embeddings on a device. Blocks have eight warps, except the block of SumCounts. A warp computes 32 packs of columns
// of a row of y or of a gradient. The backward pass first sorts the rows by token (stable, eight bits of the token at a
// time), so that the rows of a token are adjacent.
#include <bit>

#include "common/base/status.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows.h"
#include "kernels/embedding.h"

namespace capstan::kernels {
namespace {

constexpr int kWarps = 8, kBlock = 32 * kWarps;
constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;
constexpr std::int64_t kRun = 512;     // rows that a warp sorts at once
constexpr std::int64_t kSegment = 64;  // rows of a token that are added at once
constexpr int kScanBlock = 1024;

__device__ __forceinline__ int Lane() { return static_cast<int>(threadIdx.x) % 32; }
__device__ __forceinline__ std::int64_t WarpOfGrid() {
  return static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
}
// Returns the first column of this lane; the grid's second dimension goes over columns.
template <class T>
__device__ __forceinline__ std::int64_t ColumnOfLane() {
  return (static_cast<std::int64_t>(blockIdx.y) * 32 + Lane()) * Pack<T>::kCount;
}

template <class T>
Grid WarpsFor(std::int64_t count, std::int64_t width) {
  Grid grid = GridFor(count * 32, kBlock);
  const std::int64_t columns = 32 * Pack<T>::kCount;
  grid.blocks.y = static_cast<unsigned>((width + columns - 1) / columns);
  return grid;
}

// Computes y, a row for each warp. Bytes: a row of each table and of y; one addition an element.
template <class T, bool kPacked>
__global__ void __launch_bounds__(kBlock) AddTables(EmbeddingArgs<T> args) {
  const std::int64_t row = WarpOfGrid(), at = ColumnOfLane<T>();
  if (row >= args.sequences * args.length || at >= args.width) return;
  Pack<T> pack = LoadSome<T, kPacked>(args.token_table + args.tokens[row] * args.width, at, args.width);
  const Pack<T> place = LoadSome<T, kPacked>(args.position_table + row % args.length * args.width, at, args.width);
  for (int j = 0; j < Pack<T>::kCount; ++j) {
    pack.value[j] = Rounded<T>(ToFloat(pack.value[j]) + ToFloat(place.value[j]));
  }
  StoreSome<T, kPacked>(pack, args.y + row * args.width, at, args.width);
}

// One pass of a radix sort of the rows by token: orders the rows by the eight bits of their tokens from bit `shift` on.
// `rows` is the order that the previous pass made; in the first pass it is null, and row i is at place i. `counts` has
// the shape [kDigits, runs].
struct SortPass {
  std::int64_t count = 0, runs = 0;
  const std::int32_t* tokens = nullptr;
  const std::int32_t* rows = nullptr;
  int shift = 0;
  std::int32_t* counts = nullptr;
  std::int32_t* sorted = nullptr;
};

// Calls visit(row, digit, valid, before, same) in all lanes, 32 rows of the run at a time: `valid` tells whether the
// lane has a row, `same` is the number of lanes with a row of this digit, and `before` of them are below this lane. The
// votes in this function make lanes wait for each other but do not order memory, so data that lanes share needs further
// barriers. Of the tests' builds, only the one with ThreadSanitizer notices a missing barrier.
template <class Visit>
__device__ __forceinline__ void ForRun(const SortPass& pass, std::int64_t run, const Visit& visit) {
  for (std::int64_t begin = run * kRun; begin < (run + 1) * kRun && begin < pass.count; begin += 32) {
    const std::int64_t index = begin + Lane();
    const bool valid = index < pass.count;
    const auto row = static_cast<std::int32_t>(!valid ? 0 : pass.rows == nullptr ? index : pass.rows[index]);
    const int digit = pass.tokens[row] >> pass.shift & (kDigits - 1);
    unsigned same = __ballot_sync(kWholeWarp, valid);
    for (int bit = 0; bit < kDigitBits; ++bit) {
      const unsigned set = __ballot_sync(kWholeWarp, digit >> bit & 1);
      same &= (digit >> bit & 1) != 0 ? set : ~set;
    }
    visit(row, digit, valid, __popc(same & ((1U << Lane()) - 1)), __popc(same));
  }
}

__global__ void __launch_bounds__(kBlock) CountDigits(SortPass pass) {
  __shared__ std::int32_t counts[kWarps][kDigits];
  std::int32_t* const own = counts[threadIdx.x / 32];
  const std::int64_t run = WarpOfGrid();
  if (run >= pass.runs) return;
  for (int digit = Lane(); digit < kDigits; digit += 32) own[digit] = 0;
  __syncwarp();
  ForRun(pass, run, [&](std::int32_t, int digit, bool valid, int before, int same) {
    if (valid && before == 0) own[digit] += same;
    __syncwarp();
  });
  for (int digit = Lane(); digit < kDigits; digit += 32) pass.counts[digit * pass.runs + run] = own[digit];
}

// Replaces each count by the sum of the counts before it. The grid has one block; each thread has adjacent counts.
__global__ void __launch_bounds__(kScanBlock) SumCounts(std::int64_t count, std::int32_t* counts) {
  __shared__ std::int32_t of_warp[kScanBlock / 32];
  const std::int64_t each = (count + kScanBlock - 1) / kScanBlock;
  const std::int64_t first = each * threadIdx.x, last = first + each < count ? first + each : count;
  std::int32_t own = 0;
  for (std::int64_t i = first; i < last; ++i) own += counts[i];
  std::int32_t up_to = own;  // own, and those of the lanes before
  for (int by = 1; by < 32; by *= 2) {
    const std::int32_t other = __shfl_up_sync(kWholeWarp, up_to, by);
    if (Lane() >= by) up_to += other;
  }
  if (Lane() == 31) of_warp[threadIdx.x / 32] = up_to;
  __syncthreads();
  std::int32_t before = up_to - own;
  for (unsigned warp = 0; warp < threadIdx.x / 32; ++warp) before += of_warp[warp];
  for (std::int64_t i = first; i < last; ++i) {
    const std::int32_t here = counts[i];
    counts[i] = before;
    before += here;
  }
}

__global__ void __launch_bounds__(kBlock) PlaceRows(SortPass pass) {
  __shared__ std::int32_t places[kWarps][kDigits];
  std::int32_t* const own = places[threadIdx.x / 32];
  const std::int64_t run = WarpOfGrid();
  if (run >= pass.runs) return;
  for (int digit = Lane(); digit < kDigits; digit += 32) own[digit] = pass.counts[digit * pass.runs + run];
  __syncwarp();
  ForRun(pass, run, [&](std::int32_t row, int digit, bool valid, int before, int same) {
    if (valid) pass.sorted[own[digit] + before] = row;
    __syncwarp();
    if (valid && before == 0) own[digit] += same;
    __syncwarp();
  });
}

// Writes ranks[i]: how many of the sorted rows before i have the same token. A binary search finds the number.
__global__ void __launch_bounds__(kBlock)
    RankRows(std::int64_t count, const std::int32_t* tokens, const std::int32_t* sorted, std::int32_t* ranks) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x;
  if (i >= count) return;
  const std::int32_t token = tokens[sorted[i]];
  std::int64_t first = 0, last = i;
  while (first < last) {
    const std::int64_t middle = (first + last) / 2;
    const bool before = tokens[sorted[middle]] < token;
    first = before ? middle + 1 : first;
    last = before ? last : middle;
  }
  ranks[i] = static_cast<std::int32_t>(i - first);
}

// The rows of a batch, sorted by token. A segment is up to kSegment rows of one token; it begins where the rank is a
// multiple of kSegment. The token's first segment is added to the gradient itself. The sum of a later segment, which
// begins at row i, goes to row i / kSegment of `partial`, which no other segment uses.
struct Segments {
  std::int64_t count = 0;
  const std::int32_t* sorted = nullptr;
  const std::int32_t* ranks = nullptr;
  float* partial = nullptr;
};

// Adds the rows of each segment. A warp has one segment and 32 packs of columns. Bytes: dy is read once, and the
// gradients of the tokens that occur are read and written; one addition an element.
template <class T, bool kPacked>
__global__ void __launch_bounds__(kBlock) AddSegments(EmbeddingGradient<T> g, Segments segments) {
  const std::int64_t first = WarpOfGrid(), at = ColumnOfLane<T>(), width = g.width;
  if (first >= segments.count) return;
  const std::int32_t rank = segments.ranks[first];
  if (rank % kSegment != 0) return;
  const std::int64_t token = g.tokens[segments.sorted[first]];
  float* const out = rank == 0 ? g.token_gradient + token * width : segments.partial + first / kSegment * width;
  Floats<T> sums = {};
  if (rank == 0 && at < width) LoadFloats<T, kPacked>(out, at, width, sums);
  for (std::int64_t part = 0; part < kSegment; part += 32) {
    const std::int64_t index = first + part + Lane();
    const bool valid = index < segments.count && segments.ranks[index] == rank + part + Lane();
    const std::int32_t own_row = valid ? segments.sorted[index] : 0;
    const int rows = __popc(__ballot_sync(kWholeWarp, valid));
#pragma unroll 4
    for (int k = 0; k < rows; ++k) {
      const std::int64_t row = __shfl_sync(kWholeWarp, own_row, k);
      if (at >= width) continue;
      const Pack<T> dy = LoadSome<T, kPacked>(g.dy + row * width, at, width);
      for (int j = 0; j < Pack<T>::kCount; ++j) sums[j] += ToFloat(dy.value[j]);
    }
    if (rows < 32) break;
  }
  if (at < width) StoreFloats<T, kPacked>(sums, out, at, width);
}

// Adds the sums of a token's later segments to its gradient. A warp has one token with more than one segment, and 32
// packs of columns.
template <bool kPacked>
__global__ void __launch_bounds__(kBlock)
    AddOtherSegments(std::int64_t width, const std::int32_t* tokens, float* gradient, Segments segments) {
  const std::int64_t first = WarpOfGrid(), at = ColumnOfLane<float>(), count = segments.count;
  if (first + kSegment >= count || at >= width || segments.ranks[first] != 0) return;
  if (segments.ranks[first + kSegment] != kSegment) return;
  float* const out = gradient + tokens[segments.sorted[first]] * width;
  Floats<float> sums;
  LoadFloats<float, kPacked>(out, at, width, sums);
  for (std::int64_t i = first + kSegment; i < count && segments.ranks[i] == i - first; i += kSegment) {
    const Pack<float> part = LoadSome<float, kPacked>(segments.partial + i / kSegment * width, at, width);
    for (int j = 0; j < Pack<float>::kCount; ++j) sums[j] += part.value[j];
  }
  StoreFloats<float, kPacked>(sums, out, at, width);
}

// Adds the gradients of positions. A warp has one position and 32 packs of columns. Bytes: dy once; one addition an
// element.
template <class T, bool kPacked>
__global__ void __launch_bounds__(kBlock) AddPositions(EmbeddingGradient<T> g) {
  const std::int64_t position = WarpOfGrid(), at = ColumnOfLane<T>(), width = g.width;
  if (position >= g.length || at >= width) return;
  float* const out = g.position_gradient + position * width;
  Floats<T> sums = {};
  if (g.position_beta != 0) LoadFloats<T, kPacked>(out, at, width, sums);
  for (int j = 0; j < Pack<T>::kCount; ++j) sums[j] = g.position_beta == 0 ? 0.0F : g.position_beta * sums[j];
#pragma unroll 4
  for (std::int64_t sequence = 0; sequence < g.sequences; ++sequence) {
    const Pack<T> dy = LoadSome<T, kPacked>(g.dy + (sequence * g.length + position) * width, at, width);
    for (int j = 0; j < Pack<T>::kCount; ++j) sums[j] += ToFloat(dy.value[j]);
  }
  StoreFloats<T, kPacked>(sums, out, at, width);
}

// Sorts the rows by token into one of the two `orders`, and returns that one.
std::int32_t* SortRows(CudaContext& context, std::int64_t vocabulary, SortPass pass, std::int32_t* const (&orders)[2]) {
  const auto bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(vocabulary - 1)));
  int turn = 0;
  do {
    pass.sorted = orders[turn % 2];
    pass.shift = turn * kDigitBits;
    Launch(context, CountDigits, GridFor(pass.runs * 32, kBlock), pass);
    Launch(context, SumCounts, {dim3(1), dim3(kScanBlock)}, pass.runs * kDigits, pass.counts);
    Launch(context, PlaceRows, GridFor(pass.runs * 32, kBlock), pass);
    pass.rows = pass.sorted;
  } while (++turn * kDigitBits < bits);
  return pass.sorted;
}

}  // namespace

template <class T>
void Embedding(CudaContext& context, const EmbeddingArgs<T>& args) {
  const bool packed =
      ArePacked(args.width * static_cast<std::int64_t>(sizeof(T)), args.token_table, args.position_table, args.y);
  Launch(context, packed ? AddTables<T, true> : AddTables<T, false>,
         WarpsFor<T>(args.sequences * args.length, args.width), args);
}

template <class T>
void EmbeddingBackward(CudaContext& context, const EmbeddingGradient<T>& g) {
  CAPSTAN_CHECK(g.vocabulary > 0);
  const std::int64_t count = g.sequences * g.length, runs = (count + kRun - 1) / kRun;
  if (count == 0) return;
  // The workspace holds two orders, the ranks, the counts, and then, aligned, the segments' sums.
  const std::int64_t integers = (3 * count + runs * kDigits + 3) / 4 * 4;
  const std::int64_t floats = (count / kSegment + 1) * g.width;
  auto* const work = context.Workspace<std::byte>(static_cast<std::size_t>(4 * (integers + floats)));
  auto* const orders = reinterpret_cast<std::int32_t*>(work);
  std::int32_t* const ranks = orders + 2 * count;
  const SortPass pass{.count = count, .runs = runs, .tokens = g.tokens, .counts = ranks + count};
  const std::int32_t* sorted = SortRows(context, g.vocabulary, pass, {orders, orders + count});
  Launch(context, RankRows, GridFor(count, kBlock), count, g.tokens, sorted, ranks);
  const Segments segments{count, sorted, ranks, reinterpret_cast<float*>(orders + integers)};
  const bool packed =
      ArePacked(g.width * static_cast<std::int64_t>(sizeof(T)), g.dy, g.token_gradient, g.position_gradient);
  Launch(context, packed ? AddSegments<T, true> : AddSegments<T, false>, WarpsFor<T>(count, g.width), g, segments);
  Launch(context, packed ? AddOtherSegments<true> : AddOtherSegments<false>, WarpsFor<float>(count, g.width), g.width,
         g.tokens, g.token_gradient, segments);
  Launch(context, packed ? AddPositions<T, true> : AddPositions<T, false>, WarpsFor<T>(g.length, g.width), g);
}

template void Embedding(CudaContext&, const EmbeddingArgs<float>&);
template void Embedding(CudaContext&, const EmbeddingArgs<Bf16>&);
template void Embedding(CudaContext&, const EmbeddingArgs<Half>&);
template void EmbeddingBackward(CudaContext&, const EmbeddingGradient<float>&);
template void EmbeddingBackward(CudaContext&, const EmbeddingGradient<Bf16>&);
template void EmbeddingBackward(CudaContext&, const EmbeddingGradient<Half>&);

}  // namespace capstan::kernels
