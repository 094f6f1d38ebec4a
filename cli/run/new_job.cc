#include "cli/run/new_job.h"

#include <sys/random.h>

#include <filesystem>

#include "common/config/job/data_section.h"

namespace capstan::cli {

JobId NewJobId() {
  JobId job;
  CAPSTAN_CHECK(getrandom(&job, sizeof job, 0) == sizeof job);
  return job;
}

Status MakePathsAbsolute(DataSection* data) {
  for (std::string* path : {&data->path, &data->labels}) {
    if (path->empty()) continue;
    std::error_code error;
    const std::filesystem::path absolute = std::filesystem::absolute(*path, error);
    if (error)
      return Invalid("data: cannot tell where " + *path + " is: " + error.message() + "; write the whole path");
    *path = absolute.lexically_normal().string();
  }
  return {};
}

}  // namespace capstan::cli
