#include "cli/trainer/built_in_model.h"

#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <vector>

#include "cli/run/process.h"
#include "cli/trainer/machine_account.h"
#include "common/config/job/job_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job_config.h"
#include "common/data/safetensors.h"
#include "kernels/base/context.h"
#include "worker/data/dataset.h"
#include "worker/device/model_factory.h"
#include "worker/train/sample_text.h"

namespace capstan::cli {
namespace {

constexpr std::string_view kSamplePrompt = "\n";

Status UnknownModel() {
  return Unsupported(
      "model.kind = \"client\": the model is its workers' own, and known once one of them has declared it");
}

}  // namespace

Result<JobNeeds> NeedsOfJob(const JobConfig& config) {
  if (!config.model.built_in()) return UnknownModel();
  RaiseOpenFilesLimit(kWorkerFilesMax);
  try {
    CAPSTAN_ASSIGN_OR_RETURN(const MachineAccount account, CountMachine(config));
    return JobNeeds{account.bytes(), account.snapshot_bytes(), account.ByRole(),
                    CheckMachine(account, ReadFreeMemory())};
  } catch (const std::bad_alloc&) {
    return Refused(
        "no more memory was given while the job's data were read, as each worker reads them; give it less of [data], "
        "or start it where there is more memory");
  }
}

Status CheckMachine(const JobConfig& config) {
  if (!config.model.built_in()) return {};
  const Result<JobNeeds> needs = NeedsOfJob(config);
  return needs.ok() ? needs->fit : needs.status();
}

Result<Catalog> CatalogOfJob(const JobConfig& config) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::unique_ptr<train::Dataset> data, train::OpenDataset(config, "/"));
  kernels::CpuContext context(1);
  CAPSTAN_ASSIGN_OR_RETURN(const nn::ModelShape shape, train::ShapeOfModel(config, data->spec()));
  CAPSTAN_ASSIGN_OR_RETURN(const auto model, nn::CreateModel<float>(context, shape));
  return Catalog::Create(train::JobTensors(config, model->tensors()));
}

Result<std::string> SampleOfJob(const JobConfig& config, const std::string& weights_path) {
  CAPSTAN_ASSIGN_OR_RETURN(const SafetensorsFile file, ReadSafetensors(weights_path));
  std::vector<float> weights(file.data.size() / sizeof(float));
  std::memcpy(weights.data(), file.data.data(), weights.size() * sizeof(float));
  train::SampleTextOptions options;
  options.seed = config.job.seed;
  return train::SampleText(config, weights, kSamplePrompt, options);
}

}  // namespace capstan::cli
