// All sections of the job file, for code that needs the whole file.
#pragma once

#include "common/config/job/allreduce_section.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/data_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/metrics_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job/schedule_section.h"
#include "common/config/job/security_section.h"
#include "common/config/job/snapshot_section.h"
#include "common/config/job/worker_section.h"
