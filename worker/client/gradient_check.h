// AllFinite, HashIfFinite, SumOfSquares: checks on a gradient before it is sent.
//
// Kind:   pure functions.
// Why:    in modes without global steps, one of the functions looks at every element of every push, so they are made
//         to run at memory bandwidth. The sum adds up 16 lanes in a fixed order, so its bits are the same on every
//         machine.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace capstan::client {

// Whether no value is NaN or infinite.
bool AllFinite(std::span<const float> values);

// Returns the XXH3-64 of the values' bytes; nothing if a value is NaN or infinite. Reads the values from memory once.
std::optional<std::uint64_t> HashIfFinite(std::span<const float> values);

// Adds up the squares in double. The sum is infinite or NaN if a value is.
double SumOfSquares(std::span<const float> values);

}  // namespace capstan::client
