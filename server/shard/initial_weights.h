// InitialWeights: version 0 of a tensor's elements.
//
// Kind:   a pure function of (seed, the tensor's name and Init, element).
// Why:    each server computes version 0 of its own blocks. The cut into blocks and shards changes no bit.
#pragma once

#include <cstdint>
#include <span>

#include "common/data/catalog.h"

namespace capstan::server {

// Computes elements of the tensor: out[j] becomes its element first_element + j, row-major.
void FillInitialWeights(std::uint64_t seed, const TensorSpec& tensor, std::uint64_t first_element,
                        std::span<float> out);

}  // namespace capstan::server
