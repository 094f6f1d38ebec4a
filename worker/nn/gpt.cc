#include "worker/nn/gpt_model.h"

namespace capstan::nn {

template Result<std::unique_ptr<Model<float>>> CreateGpt(kernels::CpuContext&, const GptShape&);
template Result<std::unique_ptr<Model<double>>> CreateGpt(kernels::CpuContext&, const GptShape&);
template Result<std::unique_ptr<Model<Bf16>>> CreateGpt(kernels::CpuContext&, const GptShape&);
template Result<std::unique_ptr<Model<Half>>> CreateGpt(kernels::CpuContext&, const GptShape&);

}  // namespace capstan::nn
