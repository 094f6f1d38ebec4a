// How a shard begins a generation: its catalog, its blocks, and what of former steps is forgotten.
#include "server/shard.h"

namespace capstan::server {

void Shard::On(const Reset& reset, Instant now, Outbox* out) {
  if (reset.incarnation != options_.incarnation || reset.generation < generation_) return;
  const bool already = serving() && reset.generation == generation_;
  if (!already) {
    if (Status status = Install(reset, out); !status.ok()) {
      out->Send(options_.coordinator,
                ResetBad{options_.shard, options_.incarnation, reset.generation, status.message()});
      return;
    }
    reset_digest_ = store_->Digest();
  }
  out->Send(options_.coordinator, ResetDone{options_.shard, options_.incarnation, generation_, reset_digest_});
  PrepareStepWhenComplete(now, out);
}

// Takes the catalog, and makes the blocks of the version asked for.
Status Shard::Install(const Reset& reset, Outbox* out) {
  if (reset.slot_count == 0 || reset.slot_count > kSlotsMax) {
    return Invalid("a job has 1 to " + std::to_string(kSlotsMax) + " slots, not " + std::to_string(reset.slot_count));
  }
  if (reset.version != Version{0}) return Invalid("there is no snapshot of that version here");
  CAPSTAN_ASSIGN_OR_RETURN(Catalog catalog, Catalog::Create(reset.catalog, options_.block_elements));
  const std::vector<ShardIndex> placement = PlaceBlocks(catalog, options_.shard_count);
  std::vector<BlockIndex> mine;
  std::uint64_t elements = 0;
  for (BlockIndex block = 0; block < placement.size(); ++block) {
    if (placement[block] != options_.shard) continue;
    mine.push_back(block);
    elements += catalog.blocks()[block].count;
  }
  CAPSTAN_RETURN_IF_ERROR(CheckMemory(elements, out));
  store_.reset();  // before the new one is made: there is memory for one
  catalog_ = std::make_unique<Catalog>(std::move(catalog));
  store_ = std::make_unique<BlockStore>(*catalog_, std::move(mine), options_.optimizer, options_.seed);
  generation_ = reset.generation;
  version_ = reset.version;
  slot_count_ = reset.slot_count;
  parameters_ = reset.parameters;
  ForgetProgress();
  metrics_->parameter_bytes.Set(store_->parameter_bytes());
  metrics_->optimizer_bytes.Set(store_->optimizer_bytes());
  metrics_->generation.Set(static_cast<double>(generation_.value));
  metrics_->version.Set(static_cast<double>(version_.value));
  return {};
}

// The account of PROTOCOL.md 6: two versions of weights and state, the kept sum, and a window of staged payloads.
Status Shard::CheckMemory(std::uint64_t elements, Outbox* out) const {
  const std::uint64_t per_element = 8 * (1 + static_cast<std::uint64_t>(StateCount(options_.optimizer.kind))) + 4;
  const std::uint64_t window = std::uint64_t{options_.window_blocks} * options_.block_elements * sizeof(float);
  const std::uint64_t bytes = elements * per_element + window;
  const std::string account = std::to_string(elements) + " parameters of " + std::to_string(per_element) +
                              " bytes each and a window of " + std::to_string(window >> 20) +
                              " MiB: " + std::to_string(bytes >> 20) + " MiB";
  if (bytes > options_.memory_bytes_max) {
    return Invalid(account + ", more than the " + std::to_string(options_.memory_bytes_max >> 20) +
                   " MiB of this machine; use more servers or a smaller model");
  }
  out->Say(Severity::kInfo, "shard " + std::to_string(options_.shard) + " holds " + account);
  return {};
}

// Everything about steps and pushes starts anew, for the blocks of store_.
void Shard::ForgetProgress() {
  local_of_.clear();
  progress_.assign(store_->size(), BlockProgress{});
  segment_start_.clear();
  std::size_t segments = 0;
  for (std::size_t local = 0; local < store_->size(); ++local) {
    local_of_[store_->blocks()[local]] = local;
    progress_[local].last.assign(slot_count_, 0);
    segment_start_.push_back(segments);
    segments += store_->segment_count(local);
  }
  squares_.assign(segments, 0.0);
  async_reports_.clear();
  next_reports_.clear();
  ended_.assign(slot_count_, 0);
  last_commit_.reset();
  parked_.clear();
  acks_.clear();
  progress_changed_ = true;
  BeginStep();
}

}  // namespace capstan::server
