#include "server/shard/shard_memory.h"

#include <algorithm>

#include "common/data/encoding.h"

namespace capstan::server {

namespace {

constexpr std::uint32_t kAsyncBlocksMax = 1024;  // unanswered, of all workers together; each may have at least one

}  // namespace

std::string ShardMemory::ToString() const {
  return std::to_string(elements) + " parameters of " + std::to_string(bytes_per_element) +
         " bytes each and a window of " + std::to_string(window >> 20) + " MiB" +
         (log > 0 ? " and the log's " + std::to_string(log >> 20) + " MiB" : "") + ": " +
         std::to_string(bytes() >> 20) + " MiB";
}

std::uint32_t AsyncCredit(const ShardOptions& options, SlotIndex slots) {
  return std::clamp(kAsyncBlocksMax / std::max<SlotIndex>(slots, 1), 1U, options.window_blocks);
}

ShardMemory CountShardMemory(const ShardOptions& options, std::uint64_t elements, SlotIndex slots) {
  ShardMemory memory;
  const std::uint64_t narrow = options.job.encoding == Encoding::kFp32 ? 0 : 2 * BytesPerNumber(options.job.encoding);
  memory.elements = elements;
  const std::uint64_t versions = options.job.snapshots ? 3 : 2;
  const std::uint64_t arrays = versions * (1 + static_cast<std::uint64_t>(KeptStates(options.job.optimizer))) + 1;
  memory.bytes_per_element = arrays * sizeof(float) + narrow;
  if (options.job.optimizer.kind == OptimizerKind::kExternal) memory.bytes_per_element += 8;  // the mean gradient
  const std::uint64_t each = HasGlobalSteps(options.job.mode) ? options.window_blocks : AsyncCredit(options, slots);
  const std::uint64_t window = AddsGradients(options.job.aggregation) ? each : each * slots;
  // No more is staged or logged than a gradient of each slot.
  const std::uint64_t gradients = elements * sizeof(float) * slots;
  memory.window = std::min(window * options.block_elements * sizeof(float), gradients);
  if (options.job.acknowledge == Acknowledge::kDurable) memory.log = std::min(2 * options.log_bytes_max, gradients);
  return memory;
}

}  // namespace capstan::server
