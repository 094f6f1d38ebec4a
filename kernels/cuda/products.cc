#include "kernels/cuda/products.h"
#include "kernels/cuda/load_products.h"

#include <dlfcn.h>

#include <array>
#include <utility>

namespace capstan::kernels {
namespace {

constexpr std::array<const char*, 2> kNames = {"libcublasLt.so.13", "libcublasLt.so.12"};
constexpr std::array<const char*, 3> kFolders = {"/usr/local/cuda/lib64", "/usr/local/cuda-13/lib64",
                                                 "/usr/local/cuda-13.0/lib64"};

void* Open(const std::vector<std::string>& folders, std::string* looked) {
  std::vector<std::string> places;
  for (const std::string& folder : folders) places.push_back(folder + "/");
  places.emplace_back();
  for (const char* folder : kFolders) places.push_back(std::string(folder) + "/");
  for (const std::string& place : places) {
    for (const char* name : kNames) {
      if (void* const library = dlopen((place + name).c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    }
    *looked += (looked->empty() ? "" : ", ") + (place.empty() ? std::string("where the system looks") : place);
  }
  return nullptr;
}

template <class Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

bool FindAll(void* library, CublasLtFunctions* lt) {
  return Find(library, "cublasLtCreate", &lt->Create) && Find(library, "cublasLtDestroy", &lt->Destroy) &&
         Find(library, "cublasLtGetVersion", &lt->GetVersion) &&
         Find(library, "cublasLtGetStatusString", &lt->GetStatusString) &&
         Find(library, "cublasLtMatmul", &lt->Matmul) &&
         Find(library, "cublasLtMatmulAlgoGetHeuristic", &lt->MatmulAlgoGetHeuristic) &&
         Find(library, "cublasLtMatmulDescCreate", &lt->MatmulDescCreate) &&
         Find(library, "cublasLtMatmulDescDestroy", &lt->MatmulDescDestroy) &&
         Find(library, "cublasLtMatmulDescSetAttribute", &lt->MatmulDescSetAttribute) &&
         Find(library, "cublasLtMatmulPreferenceCreate", &lt->MatmulPreferenceCreate) &&
         Find(library, "cublasLtMatmulPreferenceDestroy", &lt->MatmulPreferenceDestroy) &&
         Find(library, "cublasLtMatmulPreferenceSetAttribute", &lt->MatmulPreferenceSetAttribute) &&
         Find(library, "cublasLtMatrixLayoutCreate", &lt->MatrixLayoutCreate) &&
         Find(library, "cublasLtMatrixLayoutDestroy", &lt->MatrixLayoutDestroy);
}

std::string ToString(const ProductShape& s) {
  return "a product of " + std::to_string(s.columns) + " x " + std::to_string(s.depth) + " x " + std::to_string(s.rows);
}

}  // namespace

// What cuBLASLt holds of a shape; given back through its own functions.
struct Products::Plan {
  explicit Plan(const CublasLtFunctions* functions) : lt(functions) {}
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

  const CublasLtFunctions* lt;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t left = nullptr, right = nullptr, out = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

Result<std::shared_ptr<Products>> Products::Load(const std::vector<std::string>& folders) {
  const std::shared_ptr<Products> products(new Products);
  std::string looked;
  products->library_ = Open(folders, &looked);
  if (products->library_ == nullptr) {
    return Unsupported("cuBLASLt (" + std::string(kNames[0]) + ") was not found; it was looked for in " + looked +
                       ". It comes with the CUDA toolkit, and with PyTorch in nvidia/cublas/lib or nvidia/cu13/lib");
  }
  if (!FindAll(products->library_, &products->lt_)) {
    return Unsupported("the cuBLASLt that was found lacks functions of version 12: " + std::string(dlerror()));
  }
  if (const cublasStatus_t status = products->lt_.Create(&products->handle_); status != CUBLAS_STATUS_SUCCESS) {
    return Unsupported(std::string("cuBLASLt does not start: ") + products->lt_.GetStatusString(status));
  }
  return products;
}

Products::~Products() {
  plans_.clear();
  if (handle_ != nullptr) (void)lt_.Destroy(handle_);
  if (library_ != nullptr) (void)dlclose(library_);
}

Result<std::string> LoadProducts(const std::vector<std::string>& folders, CudaContext* context) {
  CAPSTAN_ASSIGN_OR_RETURN(std::shared_ptr<Products> products, Products::Load(folders));
  context->UseProducts(products);
  return products->name();
}

std::string Products::name() const { return "cublaslt " + std::to_string(lt_.GetVersion()); }

Result<const Products::Plan*> Products::PlanFor(const ProductShape& s) {
  const auto known = plans_.find(s);
  if (known != plans_.end()) return known->second.get();
  auto plan = std::make_unique<Plan>(&lt_);
  cublasLtMatmulPreference_t preference = nullptr;
  const auto layout = [&](cublasLtMatrixLayout_t* out, cudaDataType_t type, std::int64_t rows, std::int64_t columns,
                          std::int64_t stride) {
    return lt_.MatrixLayoutCreate(out, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns),
                                  stride) == CUBLAS_STATUS_SUCCESS;
  };
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    return lt_.MatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)) == CUBLAS_STATUS_SUCCESS;
  };
  const cublasOperation_t left = s.left_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t right = s.right_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const bool keeps = (s.epilogue & 128) != 0;
  const std::uint32_t alignment = s.alignment;
  bool good = lt_.MatmulDescCreate(&plan->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS &&
              plan->Set(CUBLASLT_MATMUL_DESC_TRANSA, left) && plan->Set(CUBLASLT_MATMUL_DESC_TRANSB, right) &&
              plan->Set(CUBLASLT_MATMUL_DESC_EPILOGUE, s.epilogue) &&
              plan->Set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, s.out) &&
              (!keeps || plan->Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, s.out_stride)) &&
              layout(&plan->left, s.in, s.left_transposed ? s.depth : s.rows, s.left_transposed ? s.rows : s.depth,
                     s.left_stride) &&
              layout(&plan->right, s.in, s.right_transposed ? s.columns : s.depth,
                     s.right_transposed ? s.depth : s.columns, s.right_stride) &&
              layout(&plan->out, s.out, s.rows, s.columns, s.out_stride) &&
              lt_.MatmulPreferenceCreate(&preference) == CUBLAS_STATUS_SUCCESS &&
              prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes) &&
              prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment) &&
              prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment) &&
              prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment) &&
              prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  good = good && lt_.MatmulAlgoGetHeuristic(handle_, plan->operation, plan->left, plan->right, plan->out, plan->out,
                                            preference, 1, &found, &count) == CUBLAS_STATUS_SUCCESS;
  if (preference != nullptr) (void)lt_.MatmulPreferenceDestroy(preference);
  if (!good || count == 0) return Unsupported("cuBLASLt has no way to compute " + ToString(s));
  plan->algorithm = found.algo;
  return plans_.emplace(s, std::move(plan)).first->second.get();
}

void Products::Run(CudaContext& context, const ProductShape& shape, const Pointers& pointers, float alpha, float beta) {
  if (!context.status().ok()) return;
  if (workspace_ == nullptr) workspace_ = context.Allocate(kWorkspaceBytes);
  const Result<const Plan*> plan = PlanFor(shape);
  if (!plan.ok()) return context.Fail(plan.status());
  if (!context.status().ok()) return;
  const Plan& p = **plan;
  const bool has_bias = (shape.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0, keeps = (shape.epilogue & 128) != 0;
  cublasStatus_t status = CUBLAS_STATUS_INVALID_VALUE;
  if ((!has_bias || p.Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, pointers.bias)) &&
      (!keeps || p.Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, pointers.before))) {
    status =
        lt_.Matmul(handle_, p.operation, &alpha, pointers.left, p.left, pointers.right, p.right, &beta, pointers.out,
                   p.out, pointers.out, p.out, &p.algorithm, workspace_.get(), kWorkspaceBytes, context.stream());
  }
  if (status == CUBLAS_STATUS_SUCCESS) return;
  context.Fail({Code::kUnreachable, "cuBLASLt, " + ToString(shape) + ": " + lt_.GetStatusString(status)});
}

}  // namespace capstan::kernels
