// Embedding: the sum of a token's row and its position's row, and the gradients of both tables.
//
// Shapes: tokens [sequences, length]; token_table [vocabulary, width]; position_table [length or more, width];
//         y, dy [sequences, length, width].
// Types:  float, double, Bf16, Half; gradients of the tables in Wide<T>.
// Parity: the gradient of a table's row is added in ascending order of (sequence, position). No atomics: a task owns
//         columns. On a device a token's first 64 occurrences are added like this; later ones are added 64 at a time,
//         and then these sums in order.
#pragma once

#include <cstdint>

#include "common/data/number16.h"
#include "kernels/base/context.h"

namespace capstan::kernels {

template <class T>
struct EmbeddingArgs {
  std::int64_t sequences = 0, length = 0, width = 0;
  const std::int32_t* tokens = nullptr;  // each in [0, vocabulary)
  const T* token_table = nullptr;
  const T* position_table = nullptr;
  T* y = nullptr;
};

template <class T>
void Embedding(CpuContext& context, const EmbeddingArgs<T>& args);
template <class T>
void Embedding(CudaContext& context, const EmbeddingArgs<T>& args);

template <class T>
struct EmbeddingGradient {
  std::int64_t sequences = 0, length = 0, width = 0;
  std::int64_t vocabulary = 0;  // a device sorts as many bits of a token as this needs
  const std::int32_t* tokens = nullptr;
  const T* dy = nullptr;
  Wide<T>* token_gradient = nullptr;     // gradients are added to it: in a tied model it already holds the head's part
  Wide<T>* position_gradient = nullptr;  // position_beta * old + gradient, for the first `length` positions
  Wide<T> position_beta = 0;
};

template <class T>
void EmbeddingBackward(CpuContext& context, const EmbeddingGradient<T>& args);
template <class T>
void EmbeddingBackward(CudaContext& context, const EmbeddingGradient<T>& args);

}  // namespace capstan::kernels
