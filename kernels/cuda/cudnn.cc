#include "kernels/cuda/cudnn.h"

#include <dlfcn.h>

namespace capstan::kernels {
namespace {

template <class Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

bool FindAll(void* library, Cudnn* dnn) {
  return Find(library, "cudnnCreate", &dnn->Create) && Find(library, "cudnnDestroy", &dnn->Destroy) &&
         Find(library, "cudnnSetStream", &dnn->SetStream) &&
         Find(library, "cudnnGetErrorString", &dnn->GetErrorString) &&
         Find(library, "cudnnCreateTensorDescriptor", &dnn->CreateTensorDescriptor) &&
         Find(library, "cudnnSetTensor4dDescriptor", &dnn->SetTensor4dDescriptor) &&
         Find(library, "cudnnDestroyTensorDescriptor", &dnn->DestroyTensorDescriptor) &&
         Find(library, "cudnnCreateFilterDescriptor", &dnn->CreateFilterDescriptor) &&
         Find(library, "cudnnSetFilter4dDescriptor", &dnn->SetFilter4dDescriptor) &&
         Find(library, "cudnnDestroyFilterDescriptor", &dnn->DestroyFilterDescriptor) &&
         Find(library, "cudnnCreateConvolutionDescriptor", &dnn->CreateConvolutionDescriptor) &&
         Find(library, "cudnnSetConvolution2dDescriptor", &dnn->SetConvolution2dDescriptor) &&
         Find(library, "cudnnSetConvolutionMathType", &dnn->SetConvolutionMathType) &&
         Find(library, "cudnnDestroyConvolutionDescriptor", &dnn->DestroyConvolutionDescriptor) &&
         Find(library, "cudnnGetConvolutionForwardAlgorithm_v7", &dnn->GetConvolutionForwardAlgorithm_v7) &&
         Find(library, "cudnnGetConvolutionForwardWorkspaceSize", &dnn->GetConvolutionForwardWorkspaceSize) &&
         Find(library, "cudnnConvolutionForward", &dnn->ConvolutionForward) &&
         Find(library, "cudnnGetConvolutionBackwardDataAlgorithm_v7", &dnn->GetConvolutionBackwardDataAlgorithm_v7) &&
         Find(library, "cudnnGetConvolutionBackwardDataWorkspaceSize", &dnn->GetConvolutionBackwardDataWorkspaceSize) &&
         Find(library, "cudnnConvolutionBackwardData", &dnn->ConvolutionBackwardData) &&
         Find(library, "cudnnGetConvolutionBackwardFilterAlgorithm_v7",
              &dnn->GetConvolutionBackwardFilterAlgorithm_v7) &&
         Find(library, "cudnnGetConvolutionBackwardFilterWorkspaceSize",
              &dnn->GetConvolutionBackwardFilterWorkspaceSize) &&
         Find(library, "cudnnConvolutionBackwardFilter", &dnn->ConvolutionBackwardFilter);
}

}  // namespace

Result<Cudnn> OpenCudnn(const LibrarySearch& search) {
  Result<std::shared_ptr<void>> library = OpenLibrary(search, {"libcudnn.so.9"});
  if (!library.ok()) return library.status();
  Cudnn dnn;
  dnn.library = *library;
  decltype(&cudnnGetVersion) get_version = nullptr;
  if (!Find(dnn.library.get(), "cudnnGetVersion", &get_version) || !FindAll(dnn.library.get(), &dnn)) {
    return Unsupported("the cuDNN that was found lacks functions of version 9: " + std::string(dlerror()));
  }
  dnn.name = "cudnn " + std::to_string(get_version());
  return dnn;
}

}  // namespace capstan::kernels
