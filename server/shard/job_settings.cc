#include "server/shard/job_settings.h"

#include "common/config/job/job_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job/snapshot_section.h"
#include "common/config/job_config.h"

namespace capstan::server {

JobSettings JobSettingsOf(const JobConfig& config) {
  return {.mode = config.mode(),
          .aggregation = AggregationOf(config),
          .staleness = config.job.staleness,
          .acknowledge = config.job.acknowledge,
          .seed = config.job.seed,
          .optimizer = MakeOptimizerRule(config.optimizer),
          .encoding = EncodingOf(config),
          .snapshots = config.snapshot.enabled(),
          .config_hash = HashJobConfig(config)};
}

}  // namespace capstan::server
