// CublasLt: the functions of cuBLASLt, from the library found at run time.
//
// Fails:  kUnsupported; if the library was not found, the message names the places searched.
// Why:    cuBLASLt is larger than all of capstan, so it is not shipped: it is used where the toolkit or PyTorch has
//         installed it. The emulation (tests/emulation) has its own functions of these names.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <string>

#include "common/base/status.h"
#include "kernels/cuda/load_products.h"

namespace capstan::kernels {

// Function names without the prefix "cublasLt".
struct CublasLt {
  decltype(&cublasLtCreate) Create = nullptr;
  decltype(&cublasLtDestroy) Destroy = nullptr;
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

  std::string name;               // such as "cublaslt 130100"
  std::shared_ptr<void> library;  // keeps the library open
};

Result<CublasLt> OpenCublasLt(const LibrarySearch& search);

}  // namespace capstan::kernels
