// Matmul: C = alpha * op(A) * op(B) + beta * C, with optional bias and activation.
//
// Shapes: op(A) [m,k], op(B) [k,n], C [m,n]; row-major with strides. bias [n], added to each row. `activated`
//         [m,n] with C's stride takes activation(C); C keeps the values before it. C overlaps neither A nor B.
// Types:  float and double.
// Parity: element (i,j) is a sum over k in ascending order: one fused multiply-add after the other within blocks of
//         kMatmulDepth, the blocks' sums added in order. So its bits depend on k alone: not on the vector width of the
//         machine, the number of threads, or what other rows and columns are computed in the same call.
// Why:    own, because BLAS libraries promise none of that: OpenBLAS chooses its order by processor, and falls back to
//         SSE code on processors younger than itself.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/context.h"

namespace capstan::kernels {

inline constexpr std::int64_t kMatmulDepth = 256;

enum class Transpose : std::uint8_t { kNo, kYes };
enum class Activation : std::uint8_t { kNone, kRelu, kGelu };

template <class Real>
struct Operand {
  const Real* data = nullptr;
  std::int64_t stride = 0;  // elements from one stored row to the next
  Transpose transpose = Transpose::kNo;
};

template <class Real>
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  Operand<Real> a, b;
  Real* c = nullptr;
  std::int64_t c_stride = 0;
  Real alpha = 1;
  Real beta = 0;               // 0: C is written without being read
  const Real* bias = nullptr;  // null: none
  Activation activation = Activation::kNone;
  Real* activated = nullptr;  // may be C itself
};

template <class Real>
void Matmul(CpuContext& context, const Product<Real>& product);

// The same on the calling thread alone, for kernels whose tasks are products; `scratch` has kMatmulScratch elements.
inline constexpr std::int64_t kMatmulScratch = (704 + 64) * kMatmulDepth;
template <class Real>
void MatmulOnThisThread(const Product<Real>& product, Real* scratch);

// "avx512" or "avx2": what this machine runs. The bits are the same.
std::string MatmulDispatchName();

}  // namespace capstan::kernels
