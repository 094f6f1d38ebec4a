// AddPartialSums: a block has 32 x 16 threads and 32 columns of one array. Each thread adds every sixteenth chunk of a
// column. Bytes: the partial sums once; one addition an element.
#include "kernels/cuda/column_sums.h"

#include "kernels/cuda/launch.h"

namespace capstan::kernels {
namespace {

constexpr unsigned kColumns = 32, kWays = 16;

__global__ void __launch_bounds__(kColumns* kWays) AddChunks(PartialSums sums) {
  __shared__ float of_way[kWays][kColumns];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  const std::int64_t stride = sums.arrays * sums.columns;
  float sum = 0;
  if (column < sums.columns) {
    const float* partial = sums.partial + blockIdx.y * sums.columns + column;
#pragma unroll 4
    for (std::int64_t chunk = threadIdx.y; chunk < sums.chunks; chunk += kWays) sum += partial[chunk * stride];
  }
  of_way[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= sums.columns) return;
  for (unsigned way = 1; way < kWays; ++way) sum += of_way[way][threadIdx.x];
  // Both elements of sums.out are named, because an index known only at run time would put the arguments into local
  // memory.
  float* const out = (blockIdx.y == 0 ? sums.out[0] : sums.out[1]) + column;
  *out = sums.beta == 0 ? sum : sums.beta * *out + sum;
}

}  // namespace

void AddPartialSums(CudaContext& context, const PartialSums& sums) {
  const auto blocks = static_cast<unsigned>((sums.columns + kColumns - 1) / kColumns);
  Launch(context, AddChunks, {dim3(blocks, static_cast<unsigned>(sums.arrays)), dim3(kColumns, kWays)}, sums);
}

}  // namespace capstan::kernels
