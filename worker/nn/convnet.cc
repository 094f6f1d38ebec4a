#include "worker/nn/convnet_model.h"

namespace capstan::nn {

template Result<std::unique_ptr<Model<float>>> CreateConvnet(kernels::CpuContext&, const ConvnetShape&);
template Result<std::unique_ptr<Model<double>>> CreateConvnet(kernels::CpuContext&, const ConvnetShape&);
template Result<std::unique_ptr<Model<Bf16>>> CreateConvnet(kernels::CpuContext&, const ConvnetShape&);
template Result<std::unique_ptr<Model<Half>>> CreateConvnet(kernels::CpuContext&, const ConvnetShape&);

}  // namespace capstan::nn
