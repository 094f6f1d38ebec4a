// LinearBackward on a device: two products with epilogues that compute the rest, if cuBLASLt supports their shapes;
// otherwise Matmul and BiasActivationBackward. This file has no kernel of its own.
#include "kernels/axpby.h"
#include "kernels/linear_gradient.h"
#include "kernels/product_epilogues.h"

namespace capstan::kernels {
namespace {

// Computes the parameters' gradients from dy, which must have passed the activation's derivative. MatmulRowSums
// overwrites its target, so for beta != 0 the sums are computed in the workspace and then added.
template <class T>
void ParametersBackward(CudaContext& context, LinearGradient<T> g) {
  g.activation = Activation::kNone;
  float* const sums = g.beta == 0 ? g.bias_gradient : context.Workspace<float>(static_cast<std::size_t>(g.out));
  if (MatmulRowSums(context, WeightGradientOf(g), sums)) {
    if (g.beta != 0) Axpby(context, g.out, 1.0F, sums, g.beta, g.bias_gradient);
    return;
  }
  BiasActivationBackward(context, BiasActivationOf(g));
  Matmul(context, WeightGradientOf(g));
}

}  // namespace

template <class T>
void LinearBackward(CudaContext& context, const LinearGradient<T>& g) {
  if (g.activation == Activation::kNone) return ParametersBackward(context, g);
  BiasActivationBackward(context, BiasActivationOf(g));
  Matmul(context, WeightGradientOf(g));
}

template <class T>
void LinearBackward(CudaContext& context, const LinearGradient<T>& g, const Product<T>& incoming) {
  if (g.activation == Activation::kGelu && MatmulGeluBackward(context, incoming, g.y)) {
    return ParametersBackward(context, g);
  }
  Matmul(context, incoming);
  LinearBackward(context, g);
}

template void LinearBackward(CudaContext&, const LinearGradient<float>&);
template void LinearBackward(CudaContext&, const LinearGradient<Bf16>&);
template void LinearBackward(CudaContext&, const LinearGradient<Half>&);
template void LinearBackward(CudaContext&, const LinearGradient<float>&, const Product<float>&);
template void LinearBackward(CudaContext&, const LinearGradient<Bf16>&, const Product<Bf16>&);
template void LinearBackward(CudaContext&, const LinearGradient<Half>&, const Product<Half>&);

}  // namespace capstan::kernels
