#include "kernels/cuda/nccl.h"

namespace capstan::kernels {

Result<Nccl> OpenNccl(const LibrarySearch& search) { return OpenNcclNamed(search, "libnccl.so.2"); }

}  // namespace capstan::kernels
