// ShardContext: what the components of a shard have in common: its options, its identity, its blocks, and what it
// serves.
//
// Kind:   owned by the Shard; its components have a const reference. Only the Shard changes the identity and the
//         blocks, and only its StepEngine changes `served`.
// Why:    components share facts through this struct, so they need not know each other or the Shard.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/status.h"
#include "common/data/catalog.h"
#include "common/wire/actor.h"
#include "common/wire/messages/commit.h"
#include "common/wire/messages/snapshot_id.h"
#include "common/wire/messages/step_parameters.h"
#include "monitoring/metrics.h"
#include "server/shard/block_store.h"
#include "server/shard/shard_options.h"

namespace capstan {
struct Reset;
}  // namespace capstan

namespace capstan::server {

// The published version, and the step under way, which has the same number.
struct ServedStep {
  Version version;
  StepParameters parameters;  // for the step under way
  struct {                    // the version in the blocks; in mode allreduce it may be older than `version`
    Version version;
    std::uint64_t updates = 0;
  } blocks;
  std::unique_ptr<const Commit> last_commit;  // null: the served version contains no commit

  Step step() const { return {version.value}; }
  // Notes that a version is published. `next`: the parameters of the step that makes the next one.
  void Serve(Version published, const StepParameters& next) {
    version = published;
    parameters = next;
    if (next.on_shards) blocks = {published, next.updates};
  }
};

struct ShardContext {
  ShardContext(ShardOptions given, std::shared_ptr<monitoring::ShardMetrics> counters);
  ShardContext(const ShardContext&) = delete;
  ShardContext& operator=(const ShardContext&) = delete;

  const ShardOptions options;
  const std::shared_ptr<monitoring::ShardMetrics> metrics;

  Term term;
  Generation generation;
  TimelineId timeline;  // the timeline that is served, or being loaded
  SlotIndex slot_count = 0;
  std::unique_ptr<const Catalog> catalog;
  std::unique_ptr<BlockStore> store;
  std::unordered_map<BlockIndex, std::size_t> index_of;  // a block's index in the store
  ServedStep served;

  // Takes the timeline, the catalog and the blocks of a Reset. `given`: its catalog; `mine`: this shard's blocks of it.
  void Begin(const Reset& reset, Catalog given, const std::vector<BlockIndex>& mine, BlockStore::Begin begin);

  Step step() const { return served.step(); }
  bool durable() const { return options.acknowledge == Acknowledge::kDurable; }
  // Whether a slot's reports and its EndSlots belong to this shard.
  bool IsHome(SlotIndex slot) const { return slot % options.shard_count == options.shard; }
  std::size_t home_slot_count() const;
  // Whether the snapshot is one of the present timeline.
  bool IsOfTimeline(SnapshotId id) const {
    return id.generation >= FirstGeneration(timeline) && id.generation <= generation;
  }
  // The shard's name in messages, such as "shard 3".
  std::string name() const { return "shard " + std::to_string(options.shard); }
  // Counts and answers a push or an upload that does not fit.
  void Reject(PeerId to, const Status& fault, BlockIndex block, Outbox* out) const;
  // Answers a message with an Error.
  void Refuse(PeerId to, Code code, std::string message, Outbox* out, BlockIndex block = 0,
              SequenceNumber last = {}) const;
};

}  // namespace capstan::server
