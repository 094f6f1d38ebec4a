// Products of the way back that make more than a product in one pass, where cuBLASLt has a way for their shape.
//
// Shapes: as Product's.
// Types:  float, Bf16, Half.
// Why:    a gradient that is not read again for its activation's derivative or for a sum of its rows.
#pragma once

#include "kernels/matmul.h"

namespace capstan::kernels {

// C = gelu'(before) (op(A) op(B)); `before` [m,n] with C's stride. False: there is no way, and nothing was enqueued.
template <class T>
bool MatmulGeluBackward(CudaContext& context, const Product<T>& product, const T* before);

// Also the sums [m] of op(A)'s rows, in fp32, written. False: there is no way, and nothing was enqueued.
template <class T>
bool MatmulRowSums(CudaContext& context, const Product<T, Wide<T>>& product, Wide<T>* sums);

}  // namespace capstan::kernels
