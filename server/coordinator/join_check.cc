#include "server/coordinator/join_check.h"

#include <algorithm>
#include <vector>

#include "common/base/name.h"
#include "common/base/utf8.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job_config.h"
#include "common/keys/role_name.h"
#include "common/wire/messages/membership.h"
#include "server/coordinator/coordinator_text.h"
#include "server/coordinator/job.h"

namespace capstan::server {

namespace {

constexpr std::size_t kEmptyNamed = 8;              // shards named in one log line
constexpr std::size_t kNumericClassBytesMax = 512;  // names versions of compilers, libraries and devices

Status CheckNumericClass(const Join& join) {
  if (Excerpt(join.numeric_class, kNumericClassBytesMax) == join.numeric_class) return {};
  return Invalid("worker \"" + join.worker + "\": a numeric class is text of at most " +
                 std::to_string(kNumericClassBytesMax) + " bytes without control bytes, not \"" +
                 Excerpt(join.numeric_class) + "\"");
}

}  // namespace

Status CheckJoin(const Join& join, const Job& job) {
  if (!join.job.IsNull() && join.job != job.journal.job()) {
    return Refused("worker \"" + Excerpt(join.worker) +
                   "\" belongs to another job, which ran here before or runs elsewhere: start it again, or check its "
                   "--coordinator");
  }
  CAPSTAN_RETURN_IF_ERROR(CheckName("a worker's name", join.worker));
  if (!join.machine.empty()) CAPSTAN_RETURN_IF_ERROR(CheckName("a machine's name", join.machine));
  CAPSTAN_RETURN_IF_ERROR(CheckNumericClass(join));
  const bool only_asks = join.rank == 0 && join.catalog.empty();  // a process that only wants the job file, or a reader
  if (!only_asks) CAPSTAN_RETURN_IF_ERROR(job.ranks.Check(join, job.slot_count(), job.members));
  if (!job.journal.catalog_record() || join.catalog.empty()) return {};
  const CatalogRecord& declared = *job.journal.catalog_record();
  const std::string who = "worker \"" + join.worker + "\": ";
  if (std::string difference = DescribeDifference(declared.tensors, join.catalog); !difference.empty()) {
    return Refused(who + difference + "; start it with the same build and job file");
  }
  if (declared.numeric_class != join.numeric_class || declared.numeric_fingerprint != join.numeric_fingerprint) {
    return Refused(who + "computes with other bits: it is of class \"" + join.numeric_class + "\" (probe " +
                   std::to_string(join.numeric_fingerprint) + "), the job's is \"" + declared.numeric_class +
                   "\" (probe " + std::to_string(declared.numeric_fingerprint) +
                   "); use machines of one kind and one build");
  }
  if (declared.data_fingerprint != join.data_fingerprint) {
    return Refused(who + "reads other data (fingerprint " + std::to_string(join.data_fingerprint) + ") than the job (" +
                   std::to_string(declared.data_fingerprint) + "); check data.path on that machine");
  }
  return {};
}

Status CheckQuota(const Principal& sender, const Join& join, const Membership& members) {
  const Worker* same = members.Find(join.worker);
  if (sender.sessions_max == 0 || (same != nullptr && same->principal.key == sender.key)) return {};
  const auto has_key = [&](const auto& member) { return member.second.principal.key == sender.key; };
  const auto live = std::count_if(members.workers().begin(), members.workers().end(), has_key);
  if (static_cast<std::uint32_t>(live) < sender.sessions_max) return {};
  return Refused(
      "worker \"" + join.worker + "\": " + Count(static_cast<std::size_t>(live), "worker") + " of its key (" +
      Describe(sender) + ") " + (live == 1 ? "takes" : "take") +
      " part already, as many as sessions in the allow list allows; end one of them, and wait until its lease "
      "(limits.lease) is over if it was killed");
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
