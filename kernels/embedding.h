// Embedding: the sum of a token's row and its position's row, and the gradients of both tables.
//
// Shapes: tokens [sequences, length]; token_table [vocabulary, width]; position_table [length or more, width];
//         y, dy [sequences, length, width].
// Types:  float and double.
// Parity: a row's gradient is added in ascending order of (sequence, position). No atomics: a task owns columns.
#pragma once

#include <cstdint>

#include "kernels/context.h"

namespace capstan::kernels {

template <class Real>
struct EmbeddingArgs {
  std::int64_t sequences = 0, length = 0, width = 0;
  const std::int32_t* tokens = nullptr;  // each in [0, vocabulary)
  const Real* token_table = nullptr;
  const Real* position_table = nullptr;
  Real* y = nullptr;
};

template <class Real>
void Embedding(CpuContext& context, const EmbeddingArgs<Real>& args);

template <class Real>
struct EmbeddingGradient {
  std::int64_t sequences = 0, length = 0, width = 0;
  const std::int32_t* tokens = nullptr;
  const Real* dy = nullptr;
  Real* token_gradient = nullptr;     // is added to: in a tied model it already holds the head's part
  Real* position_gradient = nullptr;  // position_beta * old + gradient, for the first `length` positions
  Real position_beta = 0;
};

template <class Real>
void EmbeddingBackward(CpuContext& context, const EmbeddingGradient<Real>& args);

}  // namespace capstan::kernels
