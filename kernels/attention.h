// CausalAttention: softmax(q k' / sqrt(head_width)) v for each head, where query i sees only keys j <= i; and its
// gradient.
//
// Shapes: qkv, dqkv [sequences, length, 3, heads, head_width], dense; out, dout [sequences, length, heads, head_width];
//         log_sum [sequences, heads, length].
// Types:  float, double, Bf16, Half; log_sum in Wide<T>. Scores and sums are Wide<T>. Probabilities and the
//         scores' gradient are rounded to T before they are multiplied; gradients of k and v are rounded once,
//         after all additions.
// Parity: products as in matmul.h, sums over a row as in lanes.h, gradients of k and v over tiles of query rows from
//         the last to the first. Dropout decides by the probability's index in a [sequences, heads, length, stride]
//         array, where stride is length rounded up to 64. On a device sums go over tiles of keys or queries from the
//         first to the last, and the forward pass rounds probabilities before they are divided by their sum.
// Limits: head_width up to 128 on a device, where heads are filled up with zeros to a width of 32, 64 or 128.
// Why:    a tile of scores stays in the cache of the thread that computes it. The backward pass recomputes the tile,
//         instead of keeping length^2 numbers for each head.
#pragma once

#include <cstdint>

#include "common/data/number16.h"
#include "kernels/base/context.h"
#include "kernels/dropout.h"

namespace capstan::kernels {

struct AttentionShape {
  std::int64_t sequences = 0, length = 0, heads = 0, head_width = 0;
};

template <class T>
struct AttentionArgs {
  AttentionShape shape;
  DropoutMask dropout;  // for the probabilities
  const T* qkv = nullptr;
  T* out = nullptr;
  Wide<T>* log_sum = nullptr;  // log of the sum of e^score, kept for the backward pass
};

template <class T>
void CausalAttention(CpuContext& context, const AttentionArgs<T>& args);
template <class T>
void CausalAttention(CudaContext& context, const AttentionArgs<T>& args);

template <class T>
struct AttentionGradient {
  AttentionShape shape;
  DropoutMask dropout;
  const T* qkv = nullptr;
  const T* out = nullptr;
  const Wide<T>* log_sum = nullptr;
  const T* dout = nullptr;
  T* dqkv = nullptr;  // written
};

template <class T>
void CausalAttentionBackward(CpuContext& context, const AttentionGradient<T>& args);
template <class T>
void CausalAttentionBackward(CudaContext& context, const AttentionGradient<T>& args);

}  // namespace capstan::kernels
