// For a toolkit without cudnn.h.
#include "kernels/cuda/convolutions.h"

namespace capstan::kernels {

Result<std::string> LoadConvolutions(const LibrarySearch&, CudaContext*) {
  return Unsupported("capstan was built without cudnn.h, so that it cannot use cuDNN");
}

}  // namespace capstan::kernels
