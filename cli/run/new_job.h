// NewJobId, MakePathsAbsolute: what a job gets when it is created.
//
// Kind:   functions.
#pragma once

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/config/job/forward.h"

namespace capstan::cli {

JobId NewJobId();

// Workers get the job file over the network, where relative paths would mean their own folders.
Status MakePathsAbsolute(DataSection* data);

}  // namespace capstan::cli
