// Products of the backward pass that compute more than the product in one pass, if cuBLASLt supports their shape.
//
// Shapes: as Product's.
// Types:  float, Bf16, Half.
// Why:    the gradient need not be read again for its activation's derivative or for its row sums.
#pragma once

#include "kernels/matmul.h"

namespace capstan::kernels {

// Computes C = gelu'(before) (op(A) op(B)); `before` is [m,n] with C's stride. False: unsupported, and nothing was
// enqueued.
template <class T>
bool MatmulGeluBackward(CudaContext& context, const Product<T>& product, const T* before);

// Computes the product, and the sums [m] of op(A)'s rows, in fp32. False: unsupported, and nothing was enqueued.
template <class T>
bool MatmulRowSums(CudaContext& context, const Product<T, Wide<T>>& product, Wide<T>* sums);

}  // namespace capstan::kernels
