#include "worker/nn/resnet_model.h"

namespace capstan::nn {

template Result<std::unique_ptr<Model<float>>> CreateResnet(kernels::CpuContext&, const ResnetShape&);
template Result<std::unique_ptr<Model<double>>> CreateResnet(kernels::CpuContext&, const ResnetShape&);
template Result<std::unique_ptr<Model<Bf16>>> CreateResnet(kernels::CpuContext&, const ResnetShape&);
template Result<std::unique_ptr<Model<Half>>> CreateResnet(kernels::CpuContext&, const ResnetShape&);

}  // namespace capstan::nn
