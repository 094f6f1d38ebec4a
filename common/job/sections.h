// All sections of the job file, for those that take it as a whole.
#pragma once

#include "common/job/allreduce_section.h"
#include "common/job/cluster_section.h"
#include "common/job/data_section.h"
#include "common/job/job_section.h"
#include "common/job/limits_section.h"
#include "common/job/metrics_section.h"
#include "common/job/model_section.h"
#include "common/job/optimizer_section.h"
#include "common/job/schedule_section.h"
#include "common/job/snapshot_section.h"
#include "common/job/worker_section.h"
