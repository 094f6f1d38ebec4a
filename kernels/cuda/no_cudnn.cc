// Built in place of cudnn.cc and cudnn_convolutions.cc where there is no cudnn.h.
#include "kernels/cuda/convolutions.h"

namespace capstan::kernels {

Result<std::string> LoadConvolutions(const LibrarySearch&, CudaContext*) {
  return Unsupported("capstan was built without cudnn.h, so that it cannot use cuDNN");
}

}  // namespace capstan::kernels
