#include "kernels/cuda/cublaslt.h"

#include <dlfcn.h>

namespace capstan::kernels {
namespace {

template <class Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

bool FindAll(void* library, CublasLt* lt) {
  return Find(library, "cublasLtCreate", &lt->Create) && Find(library, "cublasLtDestroy", &lt->Destroy) &&
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

}  // namespace

Result<CublasLt> OpenCublasLt(const LibrarySearch& search) {
  Result<std::shared_ptr<void>> library = OpenLibrary(search, {"libcublasLt.so.13", "libcublasLt.so.12"});
  if (!library.ok()) {
    return Unsupported(library.status().message() +
                       ". It comes with the CUDA toolkit, and with PyTorch in nvidia/cu13/lib or nvidia/cublas/lib; "
                       "set CUDA_HOME to the toolkit's folder, or LD_LIBRARY_PATH to the library's");
  }
  CublasLt lt;
  lt.library = *library;
  decltype(&cublasLtGetVersion) get_version = nullptr;
  if (!Find(lt.library.get(), "cublasLtGetVersion", &get_version) || !FindAll(lt.library.get(), &lt)) {
    return Unsupported("the cuBLASLt that was found lacks functions of version 12: " + std::string(dlerror()));
  }
  lt.name = "cublaslt " + std::to_string(get_version());
  return lt;
}

}  // namespace capstan::kernels
