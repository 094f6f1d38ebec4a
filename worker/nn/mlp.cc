#include "worker/nn/mlp_model.h"

namespace capstan::nn {

template Result<std::unique_ptr<Model<float>>> CreateMlp(kernels::CpuContext&, const MlpShape&);
template Result<std::unique_ptr<Model<double>>> CreateMlp(kernels::CpuContext&, const MlpShape&);
template Result<std::unique_ptr<Model<Bf16>>> CreateMlp(kernels::CpuContext&, const MlpShape&);
template Result<std::unique_ptr<Model<Half>>> CreateMlp(kernels::CpuContext&, const MlpShape&);

}  // namespace capstan::nn
