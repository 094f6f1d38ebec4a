// FillNormal, FillUniform: the initial values of a tensor, as a pure function of (key, element).
//
// Types:  float out; normal numbers are made in double.
// Parity: element i of the tensor depends only on (key, i), whatever range is filled at once.
// Why:    servers make version 0 of the weights block by block, and the blocks of one tensor may lie on
//         several servers.
#pragma once

#include <cstdint>
#include <span>

namespace capstan::kernels {

// Fills `out` with normal numbers with mean 0 (Box and Muller); out[j] is element first_element + j.
void FillNormal(std::uint64_t key, std::uint64_t first_element, float stddev, std::span<float> out);

// Fills `out` with uniform numbers in [-scale, scale); out[j] is element first_element + j.
void FillUniform(std::uint64_t key, std::uint64_t first_element, float scale, std::span<float> out);

}  // namespace capstan::kernels
