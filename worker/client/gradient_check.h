// AllFinite, SumOfSquares: checks on a gradient before it is sent.
//
// Kind:   pure functions.
// Why:    in modes without global steps, one of the two functions looks at every element of every push, so both are
//         made to run at memory bandwidth. The sum adds up 16 lanes in a fixed order, so its bits are the same on every
//         machine.
#pragma once

#include <span>

namespace capstan::client {

// Whether no value is NaN or infinite.
bool AllFinite(std::span<const float> values);

// Adds up the squares in double. The sum is infinite or NaN if a value is.
double SumOfSquares(std::span<const float> values);

}  // namespace capstan::client
