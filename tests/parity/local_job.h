// LocalJob: what a job file describes, in one process and without sockets: settings, data, model and catalog.
//
// Kind:   immutable, except for the model, which the owner's thread runs.
// Fails:  as loading the job file, the data or the model does.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/config/job_config.h"
#include "common/data/catalog.h"
#include "kernels/base/context.h"
#include "worker/data/dataset.h"
#include "worker/device/job_model.h"

namespace capstan::parity {

struct LocalJob {
  JobConfig config;
  std::unique_ptr<kernels::CpuContext> context;
  std::unique_ptr<train::Dataset> data;
  std::unique_ptr<train::JobModel> model;
  std::unique_ptr<const Catalog> catalog;
};

// Opens a job file. Relative paths in the file are used unchanged.
Result<LocalJob> OpenLocalJob(const std::string& path, const std::vector<std::string>& overrides);

// Writes all tensors of the catalog as a safetensors file. `values` has the tensors' values one after the other.
Status WriteTensors(const std::string& path, const Catalog& catalog, std::span<const float> values);

// Does the work of main() for a program with the arguments JOB.toml FOLDER [section.key=value ...].
int RunProgram(int argc, char** argv, Status (*body)(LocalJob& job, const std::string& folder));

}  // namespace capstan::parity
