// ShardOptions: the settings of a Shard.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/types.h"
#include "common/data/catalog.h"
#include "common/wire/messages/limits.h"
#include "common/wire/messages/snapshot_id.h"
#include "server/shard/job_settings.h"
#include "server/storage/shard_identity.h"

namespace capstan {
class SharedMemory;
}

namespace capstan::server {

struct ShardOptions {
  ShardIndex shard = 0;
  std::uint32_t shard_count = 1;
  Incarnation incarnation;
  std::string endpoint;  // address for workers
  std::string metrics;   // host:port or https://host:port of the process's metrics; empty: none
  PeerId coordinator;    // coordinator messages from any other peer are refused
  JobSettings job;
  std::shared_ptr<SharedMemory> memory;  // for weights, which workers of this machine read; null: they are sent
  std::uint32_t window_blocks = 16;      // blocks staged beyond the complete ones in push order; see AsyncCredit
  std::uint32_t block_elements = kBlockElements;
  std::uint64_t log_bytes_max = std::uint64_t{128} << 20;  // pushes that wait for the log
  std::size_t log_records_max = std::size_t{1} << 16;
  // Without global steps: how many slot reports wait until the coordinator counts their steps. Those of one step always
  // fit.
  std::size_t reports_max = 2 * kSlotsMax;
  std::uint64_t memory_bytes_max = UINT64_MAX;  // a catalog that would need more is refused
  ShardIdentity identity;                       // as stored in the directory, but with the new incarnation
  std::vector<SnapshotPart> parts;              // parts in the directory
  std::function<PeerId(const std::string& endpoint)> connect;  // connects to another shard
  // Returns how many bytes of payloads a peer may be sent now; 0: none, until it has taken what it was sent.
  std::function<std::uint64_t(PeerId)> room = [](PeerId) { return UINT64_MAX; };
  // Returns how many microseconds this shard's thread has spent on messages.
  std::function<std::uint64_t()> busy_us = [] { return std::uint64_t{0}; };
};

}  // namespace capstan::server
