#include "server/shard/reset_plan.h"

#include <array>
#include <string>
#include <utility>

#include "common/wire/messages/limits.h"
#include "server/shard/shard_context.h"
#include "server/shard/shard_memory.h"

namespace capstan::server {

namespace {

Status CheckMemory(const ShardContext& shard, std::uint64_t elements, SlotIndex slots, Outbox* out) {
  const ShardMemory memory = CountShardMemory(shard.options, elements, slots);
  const std::uint64_t bytes = memory.bytes();
  if (bytes > shard.options.memory_bytes_max) {
    return Invalid(memory.ToString() + ", more than the " + std::to_string(shard.options.memory_bytes_max >> 20) +
                   " MiB of this machine; use more servers or a smaller model");
  }
  const std::string wanted_text =
      elements == 0 ? " holds no parameters" : " holds " + std::to_string(elements) + " parameters";
  out->Log(Severity::kInfo,
           shard.name() + wanted_text + ", and needs up to " + std::to_string(bytes >> 20) + " MiB of memory");
  return {};
}

}  // namespace

Result<ResetPlan> PlanReset(const ShardContext& shard, const Reset& reset, Outbox* out) {
  const ShardOptions& options = shard.options;
  if (reset.slot_count == 0 || reset.slot_count > kSlotsMax) {
    return Invalid("a job has 1 to " + std::to_string(kSlotsMax) + " slots, not " + std::to_string(reset.slot_count));
  }
  if (FirstGeneration(reset.timeline) > reset.generation)
    return Invalid("a timeline begins with a generation of its own");
  if (FirstGeneration(reset.timeline) < reset.generation && !shard.durable())
    return Invalid("this shard keeps no log to go on with");
  if (reset.snapshot.IsNone() != reset.sources.empty()) return Invalid("a snapshot has one source for each part");
  CAPSTAN_ASSIGN_OR_RETURN(Catalog catalog, Catalog::Create(reset.catalog, options.block_elements));
  const std::vector<ShardIndex> placement = PlaceBlocks(catalog, options.shard_count);
  std::vector<BlockIndex> blocks;
  std::uint64_t elements = 0;
  for (BlockIndex block = 0; block < placement.size(); ++block) {
    if (placement[block] != options.shard) continue;
    blocks.push_back(block);
    elements += catalog.blocks()[block].count;
  }
  CAPSTAN_RETURN_IF_ERROR(CheckMemory(shard, elements, reset.slot_count, out));
  return ResetPlan{std::move(catalog), std::move(blocks)};
}

std::unique_ptr<SnapshotLoad> MakeLoad(const ShardContext& shard, const Reset& reset,
                                       const std::vector<SnapshotPart>& parts) {
  SnapshotLoad::Options options;
  options.reset = reset;
  options.catalog_hash = shard.catalog->hash();
  options.array_count = shard.store->array_count();
  options.own_parts = parts;
  options.connect = shard.options.connect;
  if (reset.snapshot.IsNone()) return std::make_unique<SnapshotLoad>(std::move(options));
  options.part_of_block = PlaceBlocks(*shard.catalog, static_cast<std::uint32_t>(reset.sources.size()));
  for (std::size_t index = 0; index < shard.store->size(); ++index) {
    LoadTarget target{shard.store->blocks()[index], shard.store->count(index), {}};
    const std::array<Slice, kBlockArraysMax> arrays = shard.store->Arrays(index);
    for (std::size_t i = 0; i < arrays.size(); ++i) target.arrays[i] = arrays[i].owner;
    options.targets.push_back(std::move(target));
  }
  return std::make_unique<SnapshotLoad>(std::move(options));
}

}  // namespace capstan::server
