// Products of the backward pass for which cuBLASLt, if it supports their shape, also computes what usually follows.
//
// Shapes: as Product's.
// Types:  float, Bf16, Half.
// Why:    the gradient need not be read again for its activation's derivative or for its row sums.
#pragma once

#include "kernels/matmul.h"

namespace capstan::kernels {

// Computes C = gelu'(before) * (op(A) op(B)) element by element; `before` is [m,n] with C's stride. Returns false, with
// nothing enqueued, if cuBLASLt does not support the product.
template <class T>
bool MatmulGeluBackward(CudaContext& context, const Product<T>& product, const T* before);

// Computes the product, and the sums [m] of op(A)'s rows, in fp32. Returns false, with nothing enqueued, if cuBLASLt
// does not support the product.
template <class T>
bool MatmulRowSums(CudaContext& context, const Product<T, Wide<T>>& product, Wide<T>* sums);

}  // namespace capstan::kernels
