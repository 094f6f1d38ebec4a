// CublasLt: the functions of cuBLASLt, of the library that was found.
//
// Fails:  kUnsupported, and where it was looked for.
// Why:    cuBLASLt is larger than everything else together, so it stays where the toolkit or PyTorch has put it. The
//         emulation has one of its own.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <string>

#include "common/base/status.h"
#include "kernels/cuda/load_products.h"

namespace capstan::kernels {

// By their names without "cublasLt".
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

  std::string name;               // "cublaslt 130100"
  std::shared_ptr<void> library;  // stays open as long as this
};

Result<CublasLt> OpenCublasLt(const LibrarySearch& search);

}  // namespace capstan::kernels
