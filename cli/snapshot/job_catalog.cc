#include "cli/snapshot/job_catalog.h"

#include <memory>

#include "common/config/job_config.h"
#include "kernels/base/context.h"
#include "worker/data/dataset.h"
#include "worker/device/model_factory.h"

namespace capstan::cli {

Result<Catalog> CatalogOfJob(const JobConfig& config) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::unique_ptr<train::Dataset> data, train::OpenDataset(config, "/"));
  kernels::CpuContext context(1);
  CAPSTAN_ASSIGN_OR_RETURN(const nn::ModelShape shape, train::ShapeOfModel(config, data->spec()));
  CAPSTAN_ASSIGN_OR_RETURN(const auto model, nn::CreateModel<float>(context, shape));
  return Catalog::Create(train::JobTensors(config, model->tensors()));
}

}  // namespace capstan::cli
