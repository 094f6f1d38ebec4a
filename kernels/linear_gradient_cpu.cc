#include "kernels/linear_gradient.h"

namespace capstan::kernels {

template <class T>
void LinearBackward(CpuContext& context, const LinearGradient<T>& g) {
  BiasActivationBackward(context, BiasActivationOf(g));
  Matmul(context, WeightGradientOf(g));
}

template <class T>
void LinearBackward(CpuContext& context, const LinearGradient<T>& g, const Product<T>& incoming) {
  Matmul(context, incoming);
  LinearBackward(context, g);
}

template void LinearBackward(CpuContext&, const LinearGradient<float>&);
template void LinearBackward(CpuContext&, const LinearGradient<double>&);
template void LinearBackward(CpuContext&, const LinearGradient<Bf16>&);
template void LinearBackward(CpuContext&, const LinearGradient<Half>&);
template void LinearBackward(CpuContext&, const LinearGradient<float>&, const Product<float>&);
template void LinearBackward(CpuContext&, const LinearGradient<double>&, const Product<double>&);
template void LinearBackward(CpuContext&, const LinearGradient<Bf16>&, const Product<Bf16>&);
template void LinearBackward(CpuContext&, const LinearGradient<Half>&, const Product<Half>&);

}  // namespace capstan::kernels
