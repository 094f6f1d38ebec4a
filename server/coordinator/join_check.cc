#include "server/coordinator/join_check.h"

#include <algorithm>
#include <vector>

#include "common/base/utf8.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job_config.h"
#include "common/wire/messages/membership.h"
#include "server/coordinator/coordinator_text.h"
#include "server/coordinator/declarations.h"
#include "server/coordinator/job.h"

namespace capstan::server {

namespace {

constexpr std::size_t kEmptyNamed = 8;  // shards named in one log line

}  // namespace

Status CheckJoin(const Join& join, const Job& job) {
  if (!join.job.IsNull() && join.job != job.journal.job()) {
    return Refused("worker \"" + PrintableLine(join.worker) +
                   "\" belongs to another job, which ran here before or runs elsewhere: start it again, or check its "
                   "--coordinator");
  }
  if (join.worker.empty() || join.worker.size() > 128) return Invalid("a worker's name has 1 to 128 bytes");
  if (PrintableLine(join.worker) != join.worker) {
    return Invalid("a worker's name is text without control bytes, not \"" + PrintableLine(join.worker) + "\"");
  }
  const bool only_asks = join.rank == 0 && join.catalog.empty();  // a process that only wants the job file, or a reader
  if (!only_asks) CAPSTAN_RETURN_IF_ERROR(job.ranks.Check(join, job.slot_count(), job.members));
  if (join.catalog.empty()) return {};
  if (!job.journal.catalog_record()) return Catalog::Create(join.catalog, job.options.block_elements).status();
  const std::string difference = DifferenceOf(RecordOf(join), *job.journal.catalog_record());
  return difference.empty() ? Status() : Refused("worker \"" + join.worker + "\": " + difference);
}

std::string EmptyShardsText(const Job& job) {
  const ClusterSection& cluster = job.options.config.cluster;
  std::vector<bool> has(job.shards.size(), false);
  for (const ShardIndex shard : PlaceBlocks(*job.journal.catalog(), job.options.config.shard_count()))
    has[shard] = true;
  std::string names;
  std::size_t empty = 0;
  for (ShardIndex shard = 0; shard < job.shards.size(); ++shard) {
    if (has[shard]) continue;
    if (++empty <= kEmptyNamed) AddName(&names, job.shards.NameOf(shard));
  }
  if (empty == 0) return "";
  if (empty > kEmptyNamed) AddName(&names, std::to_string(empty - kEmptyNamed) + " more");
  const std::size_t enough = (job.shards.size() - empty + cluster.shards_per_server - 1) / cluster.shards_per_server;
  return names + (empty == 1 ? " holds" : " hold") + " no parameters: the model is " +
         Count(job.journal.catalog()->blocks().size(), "block") + ", and there are " +
         Count(job.shards.size(), "shard") + "; set cluster.servers to " +
         std::to_string(std::max<std::size_t>(enough, 1)) +
         (cluster.shards_per_server > 1 ? ", or cluster.shards_per_server lower" : "");
}

}  // namespace capstan::server
