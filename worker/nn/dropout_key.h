// MaskOf: returns a layer's dropout mask. Its key is a pure function of (seed, step, slot, micro-batch, layer).
#pragma once

#include "common/base/random.h"
#include "kernels/dropout.h"
#include "worker/nn/model.h"

namespace capstan::nn {

inline kernels::DropoutMask MaskOf(const StepKey& key, std::uint64_t layer, double probability) {
  const std::uint64_t place = std::uint64_t{key.slot} << 32 | key.micro_batch;
  return {.key = PhiloxKey(PhiloxKey(key.seed, key.step, place), layer), .probability = probability};
}

}  // namespace capstan::nn
