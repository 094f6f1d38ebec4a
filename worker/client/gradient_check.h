// AllFinite, SumOfSquares: checks on a gradient before it is sent.
//
// Kind:   pure functions.
// Why:    every element of every push is checked, so both run at memory bandwidth. The sum uses 16 lanes and a fixed
//         fold, so its bits are the same on every machine.
#pragma once

#include <span>

namespace capstan::client {

// Whether no value is NaN or infinite.
bool AllFinite(std::span<const float> values);

// Adds up the squares in double. The sum is infinite or NaN if a value is.
double SumOfSquares(std::span<const float> values);

}  // namespace capstan::client
