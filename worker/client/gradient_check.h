// AllFinite, SumOfSquares: what a worker checks of a gradient before it leaves.
//
// Kind:   pure functions.
// Why:    every element of every push passes through here, so both run at the speed of memory. The sum is added in 16
//         lanes and a fixed fold, the same on every machine.
#pragma once

#include <span>

namespace capstan::client {

// No NaN and no infinity.
bool AllFinite(std::span<const float> values);

// In double; infinite or NaN when a value is.
double SumOfSquares(std::span<const float> values);

}  // namespace capstan::client
