// NewJobId, MakePathsAbsolute: properties of a job that are set when it is created.
//
// Kind:   functions.
#pragma once

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/config/job/forward.h"

namespace capstan::cli {

JobId NewJobId();

// Makes the paths in the job file absolute. Workers get it over the network, where a relative path would refer to the
// folder in which each worker was started.
Status MakePathsAbsolute(EditableJobConfig* config);

}  // namespace capstan::cli
