#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/activation_math.h"
#include "kernels/cuda/cublaslt.h"
#include "kernels/matmul.h"

// NOLINTBEGIN: the names are cuBLASLt's.
struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  cublasOperation_t transposed_a = CUBLAS_OP_N, transposed_b = CUBLAS_OP_N;
  unsigned epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  void* aux = nullptr;
  std::int64_t aux_stride = 0;
  cudaDataType_t bias_type = CUDA_R_32F;
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  std::int64_t rows, columns, stride;
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK, alignment = 256;
  std::uint64_t workspace_bytes = 0;
};
// NOLINTEND

namespace {

using capstan::Bf16;
using capstan::Half;
using capstan::kernels::Activation;
using capstan::kernels::Operand;
using capstan::kernels::Product;
using capstan::kernels::Transpose;

// A product's parameters as they were when it was enqueued. A column-major D = op(A) op(B) is the row-major D'
// = op(B)' op(A)'.
struct Call {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t a_layout, b_layout, d_layout;
  const void *a, *b;
  void* d;
  float alpha, beta;
};

template <class T>
Operand<T> OperandOf(const void* data, const cublasLtMatrixLayoutOpaque_t& layout, cublasOperation_t operation) {
  return {static_cast<const T*>(data), layout.stride, operation == CUBLAS_OP_T ? Transpose::kYes : Transpose::kNo};
}

template <class T, class Out>
Product<T, Out> ProductOf(const Call& call) {
  const cublasLtMatmulDescOpaque_t& o = call.operation;
  const auto& [type, rows, columns, stride] = call.a_layout;
  return {.m = call.d_layout.columns,
          .n = call.d_layout.rows,
          .k = o.transposed_a == CUBLAS_OP_T ? rows : columns,
          .a = OperandOf<T>(call.b, call.b_layout, o.transposed_b),
          .b = OperandOf<T>(call.a, call.a_layout, o.transposed_a),
          .c = static_cast<Out*>(call.d),
          .c_stride = call.d_layout.stride,
          .alpha = call.alpha,
          .beta = call.beta};
}

// Computes a product and its forward epilogue, by the functions for a CPU.
template <class T, class Out>
void Forward(const Call& call, float* scratch) {
  Product<T, Out> product = ProductOf<T, Out>(call);
  const unsigned epilogue = call.operation.epilogue;
  if ((epilogue & CUBLASLT_EPILOGUE_BIAS) != 0) product.bias = static_cast<const T*>(call.operation.bias);
  if ((epilogue & CUBLASLT_EPILOGUE_RELU) != 0) product.activation = Activation::kRelu;
  if ((epilogue & CUBLASLT_EPILOGUE_GELU) != 0) product.activation = Activation::kGelu;
  if (product.activation != Activation::kNone) product.activated = product.c;
  if ((epilogue & 128) != 0) product.c = static_cast<Out*>(call.operation.aux);
  MatmulOnThisThread(product, scratch);
}

template <class T>
void GeluBackward(const Call& call, float* scratch) {
  const Product<T> whole = ProductOf<T, T>(call);
  std::vector<float> made(static_cast<std::size_t>(whole.m * whole.n));
  Product<T, float> wide{.m = whole.m, .n = whole.n, .k = whole.k, .a = whole.a, .b = whole.b, .alpha = whole.alpha};
  wide.c = made.data(), wide.c_stride = whole.n;
  MatmulOnThisThread(wide, scratch);
  const auto* before = static_cast<const T*>(call.operation.aux);
  for (std::int64_t i = 0; i < whole.m; ++i) {
    for (std::int64_t j = 0; j < whole.n; ++j) {
      const float slope = capstan::kernels::GeluDerivative(capstan::Widen(before[i * call.operation.aux_stride + j]));
      whole.c[i * whole.c_stride + j] = capstan::Narrow<T>(made[static_cast<std::size_t>(i * whole.n + j)] * slope);
    }
  }
}

// Computes the epilogue BGRADB: the sums of cuBLASLt's B over the product's depth.
template <class T>
void BiasGradient(const Call& call) {
  const Product<T, float> product = ProductOf<T, float>(call);
  const bool transposed = product.a.transpose == Transpose::kYes;
  for (std::int64_t i = 0; i < product.m; ++i) {
    float sum = 0;
    for (std::int64_t k = 0; k < product.k; ++k) {
      sum += capstan::Widen(product.a.data[transposed ? k * product.a.stride + i : i * product.a.stride + k]);
    }
    static_cast<float*>(call.operation.bias)[i] = sum;
  }
}

template <class T>
void Compute(const Call& call) {
  static thread_local std::vector<float> scratch(capstan::kernels::kMatmulScratch<T>);
  if (call.operation.epilogue == CUBLASLT_EPILOGUE_DGELU) return GeluBackward<T>(call, scratch.data());
  if (call.operation.epilogue == CUBLASLT_EPILOGUE_BGRADB) BiasGradient<T>(call);
  if (call.d_layout.type == CUDA_R_32F) return Forward<T, float>(call, scratch.data());
  Forward<T, T>(call, scratch.data());
}

std::uintptr_t Bits(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

// Whether an algorithm is found for the epilogue: its arrays must follow the rules of cuBLASLt's reference, and be
// aligned for the packs that tensor cores read. With a bias none is found if matrix A has one row or column; PyTorch
// does not request a bias then either.
bool HasEpilogue(const cublasLtMatmulDescOpaque_t& operation, const cublasLtMatrixLayoutOpaque_t& a,
                 const cublasLtMatrixLayoutOpaque_t& d, std::uint32_t alignment) {
  const bool has_bias = (operation.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
  if (has_bias && (a.type != d.type || operation.bias_type != d.type || operation.bias == nullptr)) return false;
  if (has_bias && std::min(a.rows, a.columns) == 1) return false;
  if ((operation.epilogue & 128) != 0) {
    const bool fits = operation.aux_stride % 8 == 0 && operation.aux_stride >= d.rows;
    if (a.type != d.type || !fits || operation.aux == nullptr || Bits(operation.aux) % 16 != 0) return false;
  }
  if (operation.epilogue != CUBLASLT_EPILOGUE_BGRADB) return true;
  const bool aligned = alignment % 16 == 0 && operation.bias != nullptr && Bits(operation.bias) % 16 == 0;
  return aligned && d.type == CUDA_R_32F && operation.bias_type == CUDA_R_32F;
}

template <class Field>
cublasStatus_t SetField(Field* field, const void* value, std::size_t bytes) {
  if (bytes != sizeof(Field)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(field, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

// NOLINTBEGIN: the names are cuBLASLt's.
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE" : "CUBLAS_STATUS_NOT_SUPPORTED";
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* operation, cublasComputeType_t compute, cudaDataType_t) {
  *operation = new cublasLtMatmulDescOpaque_t{.compute = compute};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  delete operation;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return SetField(&operation->transposed_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return SetField(&operation->transposed_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return SetField(&operation->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return SetField(&operation->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return SetField(&operation->aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return SetField(&operation->aux_stride, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return SetField(&operation->bias_type, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t stride) {
  if (stride < static_cast<std::int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  *layout = new cublasLtMatrixLayoutOpaque_t{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns),
                                             stride};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    std::size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    return SetField(&preference->workspace_bytes, value, bytes);
  }
  if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) return SetField(&preference->reductions, value, bytes);
  std::uint32_t alignment = 0;
  if (SetField(&alignment, value, bytes) != CUBLAS_STATUS_SUCCESS) return CUBLAS_STATUS_INVALID_VALUE;
  preference->alignment = std::min(preference->alignment, alignment);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  *found = 0;
  const bool ordered = (preference->reductions & ~CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) == 0;
  if (!ordered || operation->compute != CUBLAS_COMPUTE_32F) return CUBLAS_STATUS_INVALID_VALUE;
  if (!HasEpilogue(*operation, *a, *d, preference->alignment)) return CUBLAS_STATUS_NOT_SUPPORTED;
  *results = {.algo = {}, .workspaceSize = preference->workspace_bytes, .state = CUBLAS_STATUS_SUCCESS};
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t*, void* workspace,
                              std::size_t, cudaStream_t stream) {
  Call call{*operation, *a_layout, *b_layout, *d_layout, a, b, d, 0, 0};
  std::memcpy(&call.alpha, alpha, sizeof(float));
  std::memcpy(&call.beta, beta, sizeof(float));
  const bool keeps = (operation->epilogue & 128) != 0;
  if (c != d || Bits(workspace) % 256 != 0 || (keeps && call.beta != 0)) return CUBLAS_STATUS_INVALID_VALUE;
  stream->Enqueue([call] {
    if (call.a_layout.type == CUDA_R_16BF) return Compute<Bf16>(call);
    if (call.a_layout.type == CUDA_R_16F) return Compute<Half>(call);
    Compute<float>(call);
  });
  return CUBLAS_STATUS_SUCCESS;
}
// NOLINTEND

namespace capstan::kernels {

Result<CublasLt> OpenCublasLt(const LibrarySearch&) {
  CublasLt lt;
  lt.Create = cublasLtCreate;
  lt.Destroy = cublasLtDestroy;
  lt.GetStatusString = cublasLtGetStatusString;
  lt.Matmul = cublasLtMatmul;
  lt.MatmulAlgoGetHeuristic = cublasLtMatmulAlgoGetHeuristic;
  lt.MatmulDescCreate = cublasLtMatmulDescCreate;
  lt.MatmulDescDestroy = cublasLtMatmulDescDestroy;
  lt.MatmulDescSetAttribute = cublasLtMatmulDescSetAttribute;
  lt.MatmulPreferenceCreate = cublasLtMatmulPreferenceCreate;
  lt.MatmulPreferenceDestroy = cublasLtMatmulPreferenceDestroy;
  lt.MatmulPreferenceSetAttribute = cublasLtMatmulPreferenceSetAttribute;
  lt.MatrixLayoutCreate = cublasLtMatrixLayoutCreate;
  lt.MatrixLayoutDestroy = cublasLtMatrixLayoutDestroy;
  lt.name = MatmulDispatchName();
  return lt;
}

}  // namespace capstan::kernels
