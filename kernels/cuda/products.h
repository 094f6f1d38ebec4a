// Products: cuBLASLt, with one algorithm chosen for each shape of product.
//
// Kind:   owned by its context, and used by that context's thread.
// Limits: kWorkspaceBytes of device memory.
// Why:    for each shape the first answer of cuBLASLt's heuristic is taken and kept. The fastest of a trial could
//         differ the next time. The bits are the same each time: if cuBLASLt cuts a product's depth, the partial sums
//         stay in fp32 and are added in a separate step, never in the output's type or in order of arrival. fp32
//         products are computed in fp32: TF32 is never requested.
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "kernels/base/context.h"
#include "kernels/cuda/cublaslt.h"

namespace capstan::kernels {

// Everything that decides how a product is computed. A row-major C = op(A) op(B) is the column-major C' = op(B)'
// op(A)', so `left` is B and `rows` is n.
struct ProductShape {
  cudaDataType_t in = CUDA_R_32F, out = CUDA_R_32F;
  std::int64_t rows = 0, columns = 0, depth = 0;
  std::int64_t left_stride = 0, right_stride = 0, out_stride = 0;
  bool left_transposed = false, right_transposed = false;
  unsigned epilogue = CUBLASLT_EPILOGUE_DEFAULT;  // a cublasLtEpilogue_t
  unsigned alignment = 16;                        // of all pointers and rows, in bytes: a power of 2 up to 16
  auto operator<=>(const ProductShape&) const = default;
};

class Products {
 public:
  static constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

  // Fails: kUnsupported.
  static Result<std::shared_ptr<Products>> Start(CublasLt lt);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  // Whether cuBLASLt supports the shape. cuBLASLt is asked once for each shape.
  bool Has(const ProductShape& shape) { return PlanFor(shape) != nullptr; }

  struct Pointers {
    const void* left = nullptr;
    const void* right = nullptr;
    void* out = nullptr;
    const void* bias = nullptr;  // BIAS reads it; BGRADB writes it
    const void* aux = nullptr;   // values before the activation: GELU_AUX writes them; DGELU reads them
  };
  // Enqueues out = epilogue(alpha * left * right + beta * out).
  void Run(CudaContext& context, const ProductShape& shape, const Pointers& pointers, float alpha, float beta);

  const std::string& name() const { return lt_.name; }

 private:
  struct Plan;
  explicit Products(CublasLt lt);
  const Plan* PlanFor(const ProductShape& shape);
  // Returns null if the shape is unsupported.
  std::unique_ptr<Plan> MakePlan(const ProductShape& shape) const;
  std::optional<cublasLtMatmulAlgo_t> Choose(const Plan& plan, unsigned alignment) const;

  const CublasLt lt_;
  cublasLtHandle_t handle_ = nullptr;
  CudaContext::Memory workspace_;
  std::map<ProductShape, std::unique_ptr<Plan>> plans_;
};

}  // namespace capstan::kernels
