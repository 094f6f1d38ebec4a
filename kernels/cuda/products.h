// Products: cuBLASLt, found when it is asked for, and what it was told about each shape of product.
//
// Kind:   shared by the contexts of one device; used by one thread.
// Limits: kWorkspaceBytes of the device.
// Fails:  Load with kUnsupported, and where it was looked for.
// Why:    cuBLASLt is larger than everything else together, so it stays where the toolkit or PyTorch has put it. For
//         each shape the first of its heuristics is taken and kept: never the one that was fastest in a trial, which
//         could be another one the next time.
#pragma once

#include <cublasLt.h>

#include <compare>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/context.h"

namespace capstan::kernels {

// Functions of cuBLASLt, by their names without "cublasLt".
struct CublasLtFunctions {
  decltype(&cublasLtCreate) Create = nullptr;
  decltype(&cublasLtDestroy) Destroy = nullptr;
  decltype(&cublasLtGetVersion) GetVersion = nullptr;
  decltype(&cublasLtGetStatusString) GetStatusString = nullptr;
  decltype(&cublasLtMatmul) Matmul = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) MatmulAlgoGetHeuristic = nullptr;
  decltype(&cublasLtMatmulDescCreate) MatmulDescCreate = nullptr;
  decltype(&cublasLtMatmulDescDestroy) MatmulDescDestroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) MatmulDescSetAttribute = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) MatmulPreferenceCreate = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) MatmulPreferenceDestroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) MatmulPreferenceSetAttribute = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) MatrixLayoutCreate = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) MatrixLayoutDestroy = nullptr;
};

// What decides how a product is computed. A row-major C = op(A) op(B) is the column-major C' = op(B)' op(A)', so `left`
// is B and `rows` is n.
struct ProductShape {
  cudaDataType_t in = CUDA_R_32F, out = CUDA_R_32F;
  std::int64_t rows = 0, columns = 0, depth = 0;
  std::int64_t left_stride = 0, right_stride = 0, out_stride = 0;
  bool left_transposed = false, right_transposed = false;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  unsigned alignment = 16;  // of all pointers, in bytes: a power of 2 up to 16
  auto operator<=>(const ProductShape&) const = default;
};

class Products {
 public:
  static constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

  // `folders` are looked in first, then where the system looks, then the toolkit's usual places.
  static Result<std::shared_ptr<Products>> Load(const std::vector<std::string>& folders);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  struct Pointers {
    const void* left = nullptr;
    const void* right = nullptr;
    void* out = nullptr;
    const void* bias = nullptr;
    void* before = nullptr;  // of an epilogue that keeps the values before the activation
  };
  // out = epilogue(alpha * left * right + beta * out).
  void Run(CudaContext& context, const ProductShape& shape, const Pointers& pointers, float alpha, float beta);

  // "cublaslt 130100": of the library that was found.
  std::string name() const;

 private:
  struct Plan;
  Products() = default;
  Result<const Plan*> PlanFor(const ProductShape& shape);

  void* library_ = nullptr;
  CublasLtFunctions lt_;
  cublasLtHandle_t handle_ = nullptr;
  CudaContext::Memory workspace_;
  std::map<ProductShape, std::unique_ptr<Plan>> plans_;
};

}  // namespace capstan::kernels
