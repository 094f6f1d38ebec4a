// CatalogOfJob: the tensors of a job's model, before any worker has declared them.
//
// Kind:   function; it reads the job's data, because the model's shape depends on it.
// Fails:  kInvalid, kCorrupt: the data, or a model that does not fit it.
#pragma once

#include "common/base/status.h"
#include "common/config/job/forward.h"
#include "common/data/catalog.h"

namespace capstan::cli {

Result<Catalog> CatalogOfJob(const JobConfig& config);

}  // namespace capstan::cli
