// ReduceValues: reduces the values of all ranks, number by number.
//
// Kind:   pure function.
// Types:  NumberType; a 16-bit number is computed with as float32, and rounded once.
// Parity: the formulas of numpy.add, numpy.minimum, numpy.maximum and numpy.multiply in the order of the ranks: a NaN
//         of any rank makes the minimum and the maximum a NaN. The mean is the sum, divided by the number of ranks.
#pragma once

#include <capstan/collectives.h>

#include <cstddef>
#include <span>
#include <vector>

#include "common/base/buffer.h"

namespace capstan::client {

std::size_t BytesOf(NumberType type);
// Returns the type's name, as numpy has it.
const char* NameOf(NumberType type);
const char* NameOf(Reduction reduction);
bool IsInteger(NumberType type);

// `parts`: of every rank, of `bytes` bytes each, which make whole numbers. No part has to be aligned.
void ReduceValues(const std::vector<Slice>& parts, NumberType type, Reduction reduction, std::byte* result,
                  std::size_t bytes);

}  // namespace capstan::client
