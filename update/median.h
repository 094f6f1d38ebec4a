// MedianTile: element by element the median of the slots' gradients.
//
// Shapes: `out` has `count` numbers.
// Types:  fp32; a leaf's values may be 16-bit numbers, which are widened first.
// Parity: numpy.median in fp32. Of an even number of values it is half the sum of the two in the middle. It is not a
//         number if one of the values is not.
// Limits: no allocation; 64 KiB of stack.
// Why:    a gradient far from all others moves the median no further than one close to them does: D. Yin, Y. Chen,
//         K. Ramchandran, P. Bartlett, "Byzantine-Robust Distributed Learning", ICML 2018.
#pragma once

#include <cstddef>
#include <span>

#include "update/block_update.h"

namespace capstan {

// Computes the medians of `count` elements, starting at `begin`. `leaves`: one for each slot; those with samples count,
// each as much as any other, and there is at least one.
void MedianTile(std::span<const StagedInput> leaves, std::size_t begin, std::size_t count, float* out);

}  // namespace capstan
