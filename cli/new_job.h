// NewJobId, MakePathsAbsolute: what a job gets when it is created.
//
// Kind:   functions.
#pragma once

#include "common/job/forward.h"
#include "common/status.h"
#include "common/types.h"

namespace capstan::cli {

JobId NewJobId();

// Workers get the job file over the network, where relative paths would mean their own folders.
Status MakePathsAbsolute(DataSection* data);

}  // namespace capstan::cli
