#include "server/coordinator/hello_check.h"

#include <algorithm>

#include "common/base/utf8.h"
#include "common/config/job/job_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job_config.h"
#include "common/wire/messages/hello.h"
#include "server/coordinator/job_facts.h"
#include "server/coordinator/journal.h"
#include "server/coordinator/shard_table.h"

namespace capstan::server {

namespace {

constexpr std::uint64_t kLivesMax = std::uint64_t{1} << 48;  // the highest term or generation that is accepted

Status CheckParts(const Hello& hello, const JobFacts& facts) {
  const Mode mode = facts.options.config.mode();
  const Journal& journal = facts.journal;
  bool fits = true;
  if (hello.prepared) {
    const Prepared& prepared = *hello.prepared;
    fits = journal.segment_order() != nullptr && prepared.shard == hello.shard &&
           prepared.incarnation == hello.incarnation && prepared.generation == hello.generation &&
           prepared.step.value == hello.version.value && Fits(prepared.report, hello.shard, facts);
  }
  if (hello.last_commit) {
    const bool regrouped = WorkersUpdate(mode) && hello.last_commit->generation < hello.generation;
    fits = fits && (regrouped || hello.last_commit->generation == hello.generation) &&
           hello.last_commit->step.Next().value == hello.version.value;
  } else if (HasGlobalSteps(mode)) {
    const bool begun = hello.serving && journal.has_begun() && hello.generation == journal.generation();
    fits = fits && (!hello.serving || !begun || hello.version == journal.recover().snapshot.version);
  }
  if (fits) return {};
  return Invalid(facts.shards.NameOf(hello.shard) + " says Hello with parts that do not belong together");
}

// Names the newest snapshot in the log of which this shard has a part; "version 0" if there is none.
std::string NewestCommon(const Hello& hello, const Journal& journal) {
  for (auto manifest = journal.manifests().rbegin(); manifest != journal.manifests().rend(); ++manifest) {
    const bool there = std::any_of(hello.parts.begin(), hello.parts.end(),
                                   [&](const SnapshotPart& part) { return part.id == manifest->id; });
    if (there) return "the snapshot of version " + std::to_string(manifest->id.version.value);
  }
  return "version 0";
}

}  // namespace

bool Fits(const PrepareReport& report, ShardIndex shard, const JobFacts& facts) {
  const std::size_t segments = facts.journal.segment_order()->segment_count(shard);
  const std::size_t trusted = TakesTrustRatio(facts.options.config.optimizer.kind) ? segments : 0;
  const bool is_sync = facts.options.config.mode() == Mode::kSync;
  for (const SlotReport& slot : report.slots) {
    if (!CheckClipping(slot.clipping).ok() || !(is_sync || slot.clipping == Clipping())) return false;
  }
  return report.segment_squares.size() == segments && report.weight_squares.size() == trusted &&
         report.direction_squares.size() == trusted;
}

Status CheckHello(const Hello& hello, const JobFacts& facts) {
  const std::uint64_t newest =
      std::max({hello.term.value, hello.generation.value, hello.newest_retained.generation.value});
  if (newest > kLivesMax) return Invalid("a Hello says number " + std::to_string(newest) + ", which no job reaches");
  if (hello.shard >= facts.shards.size()) {
    return Refused("shard index " + std::to_string(hello.shard) + " is not below the job's " +
                   std::to_string(facts.shards.size()) + " shards; check --index and cluster.servers");
  }
  if (Excerpt(hello.endpoint) != hello.endpoint) {
    return Invalid(facts.shards.NameOf(hello.shard) + " names \"" + Excerpt(hello.endpoint) + "\" as its address");
  }
  if (hello.config_hash != facts.config_hash) {
    return Refused(facts.shards.NameOf(hello.shard) +
                   " was started with another job file than the coordinator; start all of them with the same file");
  }
  if (!hello.job.IsNull() && hello.job != facts.journal.job()) {
    return Refused(facts.shards.NameOf(hello.shard) +
                   "'s directory belongs to another job; start that server with another --run-dir, or move its folder "
                   "away; nothing in it is lost");
  }
  return CheckParts(hello, facts);
}

std::string BeyondLog(const Hello& hello, const JobFacts& facts) {
  const Journal& journal = facts.journal;
  const Generation generation = std::max(hello.generation, hello.newest_retained.generation);
  // In allreduce a snapshot has the generation in which its timeline began.
  const bool unknown = hello.newest_retained.generation >= FirstGeneration(journal.timeline()) &&
                       hello.newest_retained > journal.newest_snapshot();
  if (hello.term <= journal.term() && generation <= journal.generation() && !unknown) return "";
  return facts.shards.NameOf(hello.shard) + " has seen term " + std::to_string(hello.term.value) + ", generation " +
         std::to_string(generation.value) + ", and the snapshot of version " +
         std::to_string(hello.newest_retained.version.value) + " of this job; this coordinator's log ends with term " +
         std::to_string(journal.term().value) + ", generation " + std::to_string(journal.generation().value) +
         " and the snapshot of version " + std::to_string(journal.newest_snapshot().version.value) +
         ": another coordinator has taken over, or its log is an old copy (then bring the newer one back, or go on "
         "from " +
         NewestCommon(hello, journal) + " by --accept-rollback)";
}

}  // namespace capstan::server
