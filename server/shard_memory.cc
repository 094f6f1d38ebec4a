#include "server/shard_memory.h"

#include "common/encoding.h"

namespace capstan::server {

std::string ShardMemory::ToString() const {
  return std::to_string(elements) + " parameters of " + std::to_string(bytes_per_element) +
         " bytes each and a window of " + std::to_string(window >> 20) + " MiB" +
         (log > 0 ? " and the log's " + std::to_string(log >> 20) + " MiB" : "") + ": " +
         std::to_string(bytes() >> 20) + " MiB";
}

ShardMemory CountShardMemory(const ShardOptions& options, std::uint64_t elements) {
  ShardMemory memory;
  const std::uint64_t narrow = options.encoding == Encoding::kFp32 ? 0 : 2 * BytesPerNumber(options.encoding);
  memory.elements = elements;
  memory.bytes_per_element = 8 * (1 + static_cast<std::uint64_t>(StateCount(options.optimizer.kind))) + 4 + narrow;
  memory.window = std::uint64_t{options.window_blocks} * options.block_elements * sizeof(float);
  memory.log = options.acknowledge == Acknowledge::kDurable ? 2 * options.log_bytes_max : 0;
  return memory;
}

}  // namespace capstan::server
