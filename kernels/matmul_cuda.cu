// Matmul on a device, by cuBLASLt: bias and activation are its epilogues if it has them for this product.
#include <algorithm>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/numbers.h"
#include "kernels/cuda/products.h"
#include "kernels/matmul.h"
#include "kernels/product_epilogues.h"

namespace capstan::kernels {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWithAux = 128;      // a bit of those epilogues that read or write values before the activation
constexpr std::int64_t kAuxStride = 8;  // must divide the stride of those values

template <class T>
constexpr cudaDataType_t kType = std::is_same_v<T, Bf16>   ? CUDA_R_16BF
                                 : std::is_same_v<T, Half> ? CUDA_R_16F
                                                           : CUDA_R_32F;

// What follows a product without a suitable epilogue: adds the bias to c, unless it is null, and computes activated =
// activation(c), unless there is no activation. A thread computes one element. Bytes: c is read, and written if there
// is a bias; activated is written.
template <class T>
__global__ void __launch_bounds__(kThreads) Activate(Activation activation, std::int64_t count, std::int64_t columns,
                                                     std::int64_t stride, const T* bias, T* c, T* activated) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  const std::int64_t at = i / columns * stride + i % columns;
  if (bias != nullptr) c[at] = Rounded<T>(ToFloat(c[at]) + ToFloat(bias[i % columns]));
  if (activation == Activation::kNone) return;
  const float x = ToFloat(c[at]);
  const float u = 1.59576912160573071176F * x * fmaf(0.044715F * x, x, 1.0F);  // gelu(x) = x sigmoid(u)
  const float gelu = x / (1.0F + expf(-u));
  activated[at] = Rounded<T>(activation == Activation::kGelu ? gelu : x < 0 ? 0.0F : x);
}

unsigned AlignmentOf(std::initializer_list<const void*> pointers, std::int64_t row_bytes) {
  std::uintptr_t bits = 16 | static_cast<std::uintptr_t>(row_bytes);
  for (const void* pointer : pointers) bits |= reinterpret_cast<std::uintptr_t>(pointer);
  return static_cast<unsigned>(bits & (~bits + 1));
}

template <class T, class Out>
ProductShape ShapeOf(const Product<T, Out>& p) {
  ProductShape shape;
  shape.in = kType<T>;
  shape.out = kType<Out>;
  shape.rows = p.n, shape.columns = p.m, shape.depth = p.k;
  shape.left_stride = p.b.stride, shape.right_stride = p.a.stride, shape.out_stride = p.c_stride;
  shape.left_transposed = p.b.transpose == Transpose::kYes;
  shape.right_transposed = p.a.transpose == Transpose::kYes;
  const auto row_bytes = static_cast<std::int64_t>(sizeof(T)) * (p.a.stride | p.b.stride) |
                         static_cast<std::int64_t>(sizeof(Out)) * p.c_stride;
  shape.alignment = AlignmentOf({p.a.data, p.b.data, p.c, p.activated, p.bias}, row_bytes);
  return shape;
}

// Returns the epilogue to ask cuBLASLt for. The epilogue adds the bias. It also computes the activation if the values
// before the activation need not be kept, or, for GELU with beta 0, if they lie where cuBLASLt can write them.
template <class T, class Out>
unsigned EpilogueOf(const Product<T, Out>& p, unsigned alignment) {
  unsigned epilogue = p.bias == nullptr ? 0U : static_cast<unsigned>(CUBLASLT_EPILOGUE_BIAS);
  const bool in_place = p.activated == p.c;
  if (p.activation == Activation::kRelu && in_place) epilogue |= CUBLASLT_EPILOGUE_RELU;
  if (p.activation == Activation::kGelu && in_place) epilogue |= CUBLASLT_EPILOGUE_GELU;
  const bool keeps = p.activation == Activation::kGelu && !in_place && p.beta == 0;
  if (keeps && alignment == 16 && p.c_stride % kAuxStride == 0) epilogue |= CUBLASLT_EPILOGUE_GELU_AUX;
  return epilogue == 0 ? static_cast<unsigned>(CUBLASLT_EPILOGUE_DEFAULT) : epilogue;
}

bool CanMultiply(CudaContext& context) {
  if (context.status().ok() && context.products() == nullptr) {
    context.Fail(Unsupported("no cuBLASLt was loaded for this context"));
  }
  return context.status().ok();
}

}  // namespace

template <class T, class Out>
void Matmul(CudaContext& context, const Product<T, Out>& p) {
  if (p.m == 0 || p.n == 0 || !CanMultiply(context)) return;
  CAPSTAN_CHECK((std::is_same_v<T, Out>) || p.bias == nullptr);
  ProductShape shape = ShapeOf(p);
  constexpr unsigned kBias = CUBLASLT_EPILOGUE_BIAS, kNothing = CUBLASLT_EPILOGUE_DEFAULT;
  // Tries the epilogue that does most, then those that do less: for some shapes of one row or column cuBLASLt adds no
  // bias.
  for (const unsigned epilogue : {EpilogueOf(p, shape.alignment), p.bias == nullptr ? kNothing : kBias, kNothing}) {
    shape.epilogue = epilogue;
    if (context.products()->Has(shape)) break;
  }
  constexpr unsigned kActivations = CUBLASLT_EPILOGUE_RELU | CUBLASLT_EPILOGUE_GELU_AUX;
  const bool activates = (shape.epilogue & kActivations) != 0, keeps = (shape.epilogue & kWithAux) != 0;
  const Out* bias_left = nullptr;
  if constexpr (std::is_same_v<T, Out>) bias_left = (shape.epilogue & kBias) != 0 ? nullptr : p.bias;
  const Products::Pointers pointers{
      .left = p.b.data, .right = p.a.data, .out = keeps ? p.activated : p.c, .bias = p.bias, .aux = p.c};
  context.products()->Run(context, shape, pointers, p.alpha, p.beta);
  if (bias_left == nullptr && (p.activation == Activation::kNone || activates)) return;
  Launch(context, Activate<Out>, GridFor(p.m * p.n, kThreads), p.activation, p.m * p.n, p.n, p.c_stride, bias_left, p.c,
         p.activated);
}

template <class T>
bool MatmulGeluBackward(CudaContext& context, const Product<T>& p, const T* before) {
  if (p.m == 0 || p.n == 0 || !CanMultiply(context)) return true;
  ProductShape shape = ShapeOf(p);
  shape.alignment = std::min(shape.alignment, AlignmentOf({before}, 0));
  shape.epilogue = CUBLASLT_EPILOGUE_DGELU;
  const bool fits = p.beta == 0 && shape.alignment == 16 && p.c_stride % kAuxStride == 0;
  if (!fits || !context.products()->Has(shape)) return false;
  const Products::Pointers pointers{.left = p.b.data, .right = p.a.data, .out = p.c, .aux = before};
  context.products()->Run(context, shape, pointers, p.alpha, p.beta);
  return true;
}

template <class T>
bool MatmulRowSums(CudaContext& context, const Product<T, Wide<T>>& p, Wide<T>* sums) {
  if (p.m == 0 || p.n == 0 || !CanMultiply(context)) return true;
  ProductShape shape = ShapeOf(p);
  shape.alignment = std::min(shape.alignment, AlignmentOf({sums}, 0));
  shape.epilogue = CUBLASLT_EPILOGUE_BGRADB;  // A is the right factor here
  if (!context.products()->Has(shape)) return false;
  const Products::Pointers pointers{.left = p.b.data, .right = p.a.data, .out = p.c, .bias = sums};
  context.products()->Run(context, shape, pointers, p.alpha, p.beta);
  return true;
}

template void Matmul(CudaContext&, const Product<float>&);
template void Matmul(CudaContext&, const Product<Bf16>&);
template void Matmul(CudaContext&, const Product<Bf16, float>&);
template void Matmul(CudaContext&, const Product<Half>&);
template void Matmul(CudaContext&, const Product<Half, float>&);
template bool MatmulGeluBackward(CudaContext&, const Product<float>&, const float*);
template bool MatmulGeluBackward(CudaContext&, const Product<Bf16>&, const Bf16*);
template bool MatmulGeluBackward(CudaContext&, const Product<Half>&, const Half*);
template bool MatmulRowSums(CudaContext&, const Product<float>&, float*);
template bool MatmulRowSums<Bf16>(CudaContext&, const Product<Bf16, float>&, float*);
template bool MatmulRowSums<Half>(CudaContext&, const Product<Half, float>&, float*);

}  // namespace capstan::kernels
