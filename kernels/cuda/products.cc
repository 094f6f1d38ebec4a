#include "kernels/cuda/products.h"

#include <utility>

namespace capstan::kernels {
namespace {

constexpr unsigned kWithAux = 128;  // a bit in GELU_AUX and DGELU

bool HasBias(const ProductShape& shape) {
  return shape.epilogue == CUBLASLT_EPILOGUE_BGRADB || (shape.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
}

std::string ToString(const ProductShape& s) {
  return "a product of " + std::to_string(s.columns) + " x " + std::to_string(s.depth) + " x " + std::to_string(s.rows);
}

}  // namespace

// cuBLASLt's descriptors for a shape, released by cuBLASLt's functions.
struct Products::Plan {
  explicit Plan(const CublasLt* functions) : lt(functions) {}
  ~Plan() {
    for (cublasLtMatrixLayout_t layout : {left, right, out}) {
      if (layout != nullptr) (void)lt->MatrixLayoutDestroy(layout);
    }
    if (operation != nullptr) (void)lt->MatmulDescDestroy(operation);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  template <class Value>
  bool Set(cublasLtMatmulDescAttributes_t attribute, const Value& value) const {
    return lt->MatmulDescSetAttribute(operation, attribute, &value, sizeof(value)) == CUBLAS_STATUS_SUCCESS;
  }
  bool SetBias(const void* bias) const { return Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias); }
  bool SetAux(const void* aux) const { return Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux); }

  bool Describe(const ProductShape& s) {
    // While cuBLASLt chooses an algorithm, only the alignment of these pointers matters.
    const void* const hint = reinterpret_cast<const void*>(std::uintptr_t{s.alignment});
    const cublasOperation_t left_is = s.left_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t right_is = s.right_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    return lt->MatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS &&
           Set(CUBLASLT_MATMUL_DESC_TRANSA, left_is) && Set(CUBLASLT_MATMUL_DESC_TRANSB, right_is) &&
           Set(CUBLASLT_MATMUL_DESC_EPILOGUE, s.epilogue) &&
           (!HasBias(s) || (Set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, s.out) && SetBias(hint))) &&
           ((s.epilogue & kWithAux) == 0 || (Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, s.out_stride) && SetAux(hint)));
  }

  bool LayOut(cublasLtMatrixLayout_t* layout, cudaDataType_t type, std::int64_t rows, std::int64_t columns,
              std::int64_t stride) const {
    return lt->MatrixLayoutCreate(layout, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns),
                                  stride) == CUBLAS_STATUS_SUCCESS;
  }

  bool LayOut(const ProductShape& s) {
    return LayOut(&left, s.in, s.left_transposed ? s.depth : s.rows, s.left_transposed ? s.rows : s.depth,
                  s.left_stride) &&
           LayOut(&right, s.in, s.right_transposed ? s.columns : s.depth, s.right_transposed ? s.depth : s.columns,
                  s.right_stride) &&
           LayOut(&out, s.out, s.rows, s.columns, s.out_stride);
  }

  const CublasLt* lt;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t left = nullptr, right = nullptr, out = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

Products::Products(CublasLt lt) : lt_(std::move(lt)) {}

Result<std::shared_ptr<Products>> Products::Start(CublasLt lt) {
  const std::shared_ptr<Products> products(new Products(std::move(lt)));
  if (const cublasStatus_t status = products->lt_.Create(&products->handle_); status != CUBLAS_STATUS_SUCCESS) {
    products->handle_ = nullptr;
    return Unsupported("cuBLASLt does not start: " + std::string(products->lt_.GetStatusString(status)));
  }
  return products;
}

Products::~Products() {
  plans_.clear();
  if (handle_ != nullptr) (void)lt_.Destroy(handle_);
}

Result<std::string> LoadProducts(const LibrarySearch& search, CudaContext* context) {
  CAPSTAN_ASSIGN_OR_RETURN(CublasLt lt, OpenCublasLt(search));
  CAPSTAN_ASSIGN_OR_RETURN(std::shared_ptr<Products> products, Products::Start(std::move(lt)));
  context->UseProducts(products);
  return products->name();
}

const Products::Plan* Products::PlanFor(const ProductShape& shape) {
  const auto known = plans_.find(shape);
  if (known != plans_.end()) return known->second.get();
  return plans_.emplace(shape, MakePlan(shape)).first->second.get();
}

std::unique_ptr<Products::Plan> Products::MakePlan(const ProductShape& shape) const {
  auto plan = std::make_unique<Plan>(&lt_);
  if (!plan->Describe(shape) || !plan->LayOut(shape)) return nullptr;
  const std::optional<cublasLtMatmulAlgo_t> algorithm = Choose(*plan, shape.alignment);
  if (!algorithm) return nullptr;
  plan->algorithm = *algorithm;
  return plan;
}

std::optional<cublasLtMatmulAlgo_t> Products::Choose(const Plan& plan, unsigned alignment) const {
  cublasLtMatmulPreference_t preference = nullptr;
  if (lt_.MatmulPreferenceCreate(&preference) != CUBLAS_STATUS_SUCCESS) return std::nullopt;
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    return lt_.MatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)) == CUBLAS_STATUS_SUCCESS;
  };
  // Excludes INPLACE and OUTPUT_TYPE, which add partial sums in the output's type, INPLACE also in any order.
  const std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, bytes = alignment;
  const std::uint64_t workspace_bytes = kWorkspaceBytes;
  const bool good = prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes) &&
                    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions) &&
                    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, bytes) &&
                    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, bytes) &&
                    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, bytes) &&
                    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, bytes);
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const bool asked =
      good && lt_.MatmulAlgoGetHeuristic(handle_, plan.operation, plan.left, plan.right, plan.out, plan.out, preference,
                                         1, &found, &count) == CUBLAS_STATUS_SUCCESS;
  (void)lt_.MatmulPreferenceDestroy(preference);
  if (!asked || count == 0 || found.state != CUBLAS_STATUS_SUCCESS) return std::nullopt;
  return found.algo;
}

void Products::Run(CudaContext& context, const ProductShape& shape, const Pointers& pointers, float alpha, float beta) {
  if (!context.status().ok()) return;
  if (workspace_ == nullptr) workspace_ = context.Allocate(kWorkspaceBytes);
  if (!context.status().ok()) return;
  const Plan* const plan = PlanFor(shape);
  if (plan == nullptr) return context.Fail(Unsupported("cuBLASLt has no way to compute " + ToString(shape)));
  cublasStatus_t status = CUBLAS_STATUS_INVALID_VALUE;
  if ((!HasBias(shape) || plan->SetBias(pointers.bias)) &&
      ((shape.epilogue & kWithAux) == 0 || plan->SetAux(pointers.aux))) {
    status = lt_.Matmul(handle_, plan->operation, &alpha, pointers.left, plan->left, pointers.right, plan->right, &beta,
                        pointers.out, plan->out, pointers.out, plan->out, &plan->algorithm, workspace_.get(),
                        kWorkspaceBytes, context.stream());
  }
  if (status == CUBLAS_STATUS_SUCCESS) return;
  context.Fail({Code::kUnreachable, "cuBLASLt, " + ToString(shape) + ": " + lt_.GetStatusString(status)});
}

}  // namespace capstan::kernels
