#include "tests/parity/local_job.h"

#include <cstdio>

#include "common/config/job/optimizer_section.h"
#include "common/config/job_config.h"
#include "common/data/safetensors.h"
#include "worker/device/model_factory.h"

namespace capstan::parity {

namespace {

// Returns the job's tensors, as a worker declares them.
std::vector<TensorSpec> DeclaredTensors(const JobConfig& config, const train::JobModel& model) {
  std::vector<TensorSpec> tensors = model.tensors();
  for (TensorSpec& tensor : tensors) tensor.decay = tensor.decay && DecayApplies(config.optimizer, tensor.name);
  return tensors;
}

}  // namespace

Result<LocalJob> OpenLocalJob(const std::string& path, const std::vector<std::string>& overrides) {
  LocalJob job;
  CAPSTAN_ASSIGN_OR_RETURN(job.config, LoadJobConfig(path, overrides));
  job.context = std::make_unique<kernels::CpuContext>(1);
  CAPSTAN_ASSIGN_OR_RETURN(job.data, train::OpenDataset(job.config, "/"));
  CAPSTAN_ASSIGN_OR_RETURN(job.model, train::CreateJobModel(*job.context, job.config, job.data->spec()));
  CAPSTAN_ASSIGN_OR_RETURN(Catalog catalog, Catalog::Create(DeclaredTensors(job.config, *job.model)));
  job.catalog = std::make_unique<const Catalog>(std::move(catalog));
  return job;
}

Status WriteTensors(const std::string& path, const Catalog& catalog, std::span<const float> values) {
  CAPSTAN_ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::Create(path, catalog.tensors()));
  CAPSTAN_RETURN_IF_ERROR(writer.Write(0, std::as_bytes(values)));
  return writer.Commit();
}

int RunProgram(int argc, char** argv, Status (*body)(LocalJob& job, const std::string& folder)) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s JOB.toml FOLDER [section.key=value ...]\n", argv[0]);
    return 2;
  }
  Result<LocalJob> job = OpenLocalJob(argv[1], std::vector<std::string>(argv + 3, argv + argc));
  const Status status = job.ok() ? body(*job, argv[2]) : job.status();
  if (!status.ok()) std::fprintf(stderr, "%s: %s\n", argv[0], status.message().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace capstan::parity
