// Matmul: C = alpha * op(A) * op(B) + beta * C, with optional bias and activation.
//
// Shapes: op(A) [m,k], op(B) [k,n], C [m,n]; row-major with strides. bias [n], added to each row. `activated`
//         [m,n] with C's stride takes activation(C); C keeps the values before it. C overlaps neither A nor B.
// Types:  float and double; Bf16 and Half with C of their own type, rounded from float after all additions (`activated`
//         from C before it is rounded), or with C in float.
// Parity: element (i,j) is a sum over k in ascending order: one fused multiply-add after the other within blocks of
//         kMatmulDepth, whose sums are added in order. So besides the numbers only k decides the bits: not the vector
//         width of the machine, the number of threads, or the other rows and columns computed in the same call. Bf16 on
//         "amx-bf16" and "avx512-bf16" (MatmulDispatchName): 32 or two of k at a time, in the processor's order, in
//         blocks of 2 kMatmulDepth, and denormals count as zero. There the bits also depend on that name.
// Why:    our own code, because BLAS libraries promise none of this: OpenBLAS chooses its order by processor, and uses
//         SSE code on processors that are newer than the library.
//         Each product packs its weights again, even if a step has several micro-batches. Packing takes about 0.1 ns a
//         number from the second-level cache and 0.3 ns from farther away, and packed weights would take as much memory
//         as the weights. Keeping weights packed for four micro-batches gained at most 3 % for steps of a gpt (width
//         384, 128 tokens each) and an mlp (32 and 128 samples), and some steps became slower.
#pragma once

#include <cstdint>
#include <string>

#include "common/data/number16.h"
#include "kernels/base/context.h"

namespace capstan::kernels {

inline constexpr std::int64_t kMatmulDepth = 256;

enum class Transpose : std::uint8_t { kNo, kYes };
enum class Activation : std::uint8_t { kNone, kRelu, kGelu };

template <class T>
struct Operand {
  const T* data = nullptr;
  std::int64_t stride = 0;  // elements from one stored row to the next
  Transpose transpose = Transpose::kNo;
};

// Out: T or Wide<T>.
template <class T, class Out = T>
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  Operand<T> a, b;
  Out* c = nullptr;
  std::int64_t c_stride = 0;
  Wide<T> alpha = 1;
  Wide<T> beta = 0;         // 0: C is written without being read
  const T* bias = nullptr;  // null: none
  Activation activation = Activation::kNone;
  Out* activated = nullptr;  // may be C itself
};

template <class T, class Out>
void Matmul(CpuContext& context, const Product<T, Out>& product);
// On a device T is float, Bf16 or Half, and there may be a bias only if C has the operands' type. The order of sums is
// cuBLASLt's, which is fixed for given shapes on a given device (cuda/products.h). `activated` may be computed from C
// after it is rounded. The context's workspace is not used, because the operands may lie there.
template <class T, class Out>
void Matmul(CudaContext& context, const Product<T, Out>& product);

// Computes the product on the calling thread, for kernels whose tasks are products. `scratch` has kMatmulScratch<T>
// elements.
template <class T, class Out>
void MatmulOnThisThread(const Product<T, Out>& product, Wide<T>* scratch);

inline constexpr std::int64_t kMatmulTileScratch = (704 + 64) * kMatmulDepth;
inline constexpr std::int64_t kMatmulCutScratch = 672 * 512;  // sums for a part of a 16-bit C
template <class T>
inline constexpr std::int64_t kMatmulScratch = kMatmulTileScratch + (kIs16Bit<T> ? kMatmulCutScratch : 0);

// Returns the name of the code that this machine uses: "amx-bf16", "avx512-bf16", "avx512" or "avx2". All four give the
// same bits, except for products of Bf16 with the first two.
std::string MatmulDispatchName();

}  // namespace capstan::kernels
