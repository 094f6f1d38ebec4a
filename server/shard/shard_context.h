// ShardContext: what the components of a shard have in common: its options, its identity, its blocks, and what it
// serves.
//
// Kind:   owned by the Shard; its components have a const reference. Only the Shard sets the fields, except that its
//         StepEngine updates `served`. Components write the blocks' contents through `store`.
// Why:    components share facts through this struct, so they need not know each other or the Shard.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/status.h"
#include "common/data/catalog.h"
#include "common/data/reduction_tree.h"
#include "common/wire/actor.h"
#include "common/wire/messages/commit.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/snapshot_id.h"
#include "common/wire/messages/step_parameters.h"
#include "monitoring/metrics.h"
#include "server/shard/block_store.h"
#include "server/shard/session_table.h"
#include "server/shard/shard_options.h"

namespace capstan {
struct Reset;
}  // namespace capstan

namespace capstan::server {

// The published version, and the step under way, which has the same number as the version that it starts from.
struct ServedStep {
  Version version;
  StepParameters parameters;  // for the step under way
  struct {  // the version in the blocks; in mode allreduce and in external jobs it may be older than `version`
    Version version;
    std::uint64_t updates = 0;
    std::string program_state;
  } blocks;
  std::unique_ptr<const Commit> last_commit;  // the Commit that made the version; null: none since blocks were loaded

  Step step() const { return {version.value}; }
  // Notes that a version is published. `next`: the parameters of the step that makes the version after it.
  void Serve(Version published, const StepParameters& next) {
    version = published;
    parameters = next;
    if (next.on_shards) blocks = {published, next.updates, next.program_state};
  }
};

struct ShardContext {
  ShardContext(ShardOptions given, std::shared_ptr<monitoring::ShardMetrics> counters);
  ShardContext(const ShardContext&) = delete;
  ShardContext& operator=(const ShardContext&) = delete;

  const ShardOptions options;
  const std::shared_ptr<monitoring::ShardMetrics> metrics;

  Term term;
  SessionTable sessions;
  Generation generation;
  TimelineId timeline;  // the timeline that is served, or being loaded
  SlotIndex slot_count = 0;
  std::unique_ptr<const Catalog> catalog;
  std::unique_ptr<BlockStore> store;
  std::unique_ptr<BlockStore> gradients;                 // external: the mean gradients that steps make; else null
  std::unordered_map<BlockIndex, std::size_t> index_of;  // a block's index in the store
  ServedStep served;

  // Replaces everything that was served by what a Reset names. `given`: the Reset's catalog. `mine`: this shard's
  // blocks of the catalog.
  void Begin(const Reset& reset, Catalog given, const std::vector<BlockIndex>& mine, BlockStore::Begin begin);

  Step step() const { return served.step(); }
  // The blocks that a step makes of pushes, and the number of their array in pulls.
  BlockStore& stepped() const { return gradients ? *gradients : *store; }
  std::uint32_t stepped_array() const { return gradients ? kMeanGradient : 0; }
  bool durable() const { return options.job.acknowledge == Acknowledge::kDurable; }
  // Whether workers send this slot's EndSlots, with its reports, to this shard.
  bool IsHome(SlotIndex slot) const { return slot % options.shard_count == options.shard; }
  std::size_t home_slot_count() const;
  ReductionTree tree() const { return ReductionTree(slot_count, options.job.aggregation); }
  // Whether the snapshot was taken in the present timeline.
  bool IsOfTimeline(SnapshotId id) const {
    return id.generation >= FirstGeneration(timeline) && id.generation <= generation;
  }
  // Names the snapshot of a version. Where another group goes on with the served weights, a version has one name in the
  // whole timeline, because the shards may be asked for it in different generations.
  SnapshotId NameSnapshot(Version of) const {
    return {WorkersUpdate(options.job.mode) ? FirstGeneration(timeline) : generation, of};
  }
  // The shard's name in messages, such as "shard 3".
  std::string name() const { return "shard " + std::to_string(options.shard); }
  // Answers a peer that may be a stranger with an Error that tells none of the job's numbers.
  void RefuseStranger(PeerId to, Code code, std::string message, Outbox* out) const;
  // Counts an invalid or damaged push or upload in the metrics, and answers it with an Error.
  void Reject(PeerId to, const Status& fault, BlockIndex block, Outbox* out) const;
  // Answers a message with an Error. `last`: the newest sequence number that the shard has, if the message left a gap.
  void Refuse(PeerId to, Code code, std::string message, Outbox* out, BlockIndex block = 0,
              SequenceNumber last = {}) const;
};

}  // namespace capstan::server
