#include "kernels/matmul.h"

#include <vector>

#include "kernels/cuda/load_products.h"
#include "kernels/emulation/cuda/cuda_runtime.h"

namespace capstan::kernels {

// Where a device would ask cuBLASLt: the CPU's product, on the stream's thread.
template <class T, class Out>
void Matmul(CudaContext& context, const Product<T, Out>& product) {
  if (!context.status().ok()) return;
  context.stream()->Enqueue([product] {
    static thread_local std::vector<Wide<T>> scratch(kMatmulScratch<T>);
    MatmulOnThisThread(product, scratch.data());
  });
}

template void Matmul(CudaContext&, const Product<float>&);
template void Matmul(CudaContext&, const Product<Bf16>&);
template void Matmul(CudaContext&, const Product<Bf16, float>&);
template void Matmul(CudaContext&, const Product<Half>&);
template void Matmul(CudaContext&, const Product<Half, float>&);

Result<std::string> LoadProducts(const std::vector<std::string>&, CudaContext*) { return MatmulDispatchName(); }

}  // namespace capstan::kernels
