#include "server/shard/initial_weights.h"

#include <algorithm>

#include "common/base/hash.h"
#include "common/base/random.h"
#include "kernels/random_fill.h"

namespace capstan::server {

void FillInitialWeights(std::uint64_t seed, const TensorSpec& tensor, std::uint64_t first_element,
                        std::span<float> out) {
  const std::uint64_t key = PhiloxKey(seed, Hash64(std::as_bytes(std::span(tensor.name))));
  switch (tensor.init.kind) {
    case InitKind::kFromWorker:  // zero until the worker's weights arrive
    case InitKind::kZeros: std::fill(out.begin(), out.end(), 0.0F); return;
    case InitKind::kOnes: std::fill(out.begin(), out.end(), 1.0F); return;
    case InitKind::kNormal: kernels::FillNormal(key, first_element, tensor.init.scale, out); return;
    case InitKind::kUniform: kernels::FillUniform(key, first_element, tensor.init.scale, out); return;
  }
}

}  // namespace capstan::server
