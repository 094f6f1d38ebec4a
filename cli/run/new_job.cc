#include "cli/run/new_job.h"

#include <sys/random.h>

#include <filesystem>

#include "common/config/job/data_section.h"
#include "common/config/job/metrics_section.h"
#include "common/config/job_config.h"

namespace capstan::cli {

JobId NewJobId() {
  JobId job;
  CAPSTAN_CHECK(getrandom(&job, sizeof job, 0) == sizeof job);
  return job;
}

Status MakePathsAbsolute(EditableJobConfig* config) {
  DataSection& data = config->data;
  MetricsSection& metrics = config->metrics;
  for (std::string* path : {&data.path, &data.labels, &metrics.token_file, &metrics.certificate, &metrics.key}) {
    if (path->empty()) continue;
    std::error_code error;
    const std::filesystem::path absolute = std::filesystem::absolute(*path, error);
    if (error)
      return Invalid("cannot tell where " + *path + " is: " + error.message() +
                     "; write the whole path in the job file");
    *path = absolute.lexically_normal().string();
  }
  return {};
}

}  // namespace capstan::cli
