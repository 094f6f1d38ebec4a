#include "server/coordinator/steps.h"

#include <algorithm>

#include "server/coordinator/journal.h"
#include "server/coordinator/shard_table.h"

namespace capstan::server {

Step Steps::StepOfShards(const RecoverRecord& record) const {
  Step step = std::max(step_, Step{record.snapshot.version.value});
  for (const ShardEntry& shard : facts_.shards) {
    const bool knows =
        shard.hello && shard.hello->serving && shard.hello->generation >= FirstGeneration(record.timeline);
    if (knows) step = std::max(step, Step{shard.hello->version.value});
  }
  return step;
}

StepParameters Steps::ParametersFrom(const RecoverRecord& record, const Snapshots&, bool, Instant) const {
  return record.parameters;
}

Generation Steps::SnapshotsSince() const { return facts_.journal.generation(); }

}  // namespace capstan::server
