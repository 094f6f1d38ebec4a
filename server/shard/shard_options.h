// ShardOptions: the settings that a Shard is made with.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/types.h"
#include "common/config/job/mode.h"
#include "common/data/catalog.h"
#include "common/wire/messages/limits.h"
#include "common/wire/messages/snapshot_id.h"
#include "server/storage/shard_life.h"
#include "update/optimizer.h"

namespace capstan::server {

struct ShardOptions {
  ShardIndex shard = 0;
  std::uint32_t shard_count = 1;
  Incarnation incarnation;
  std::string endpoint;  // where workers reach it
  std::string metrics;   // host:port of its process's metrics; empty: it serves none
  PeerId coordinator;    // the only peer whose coordinator messages are believed
  Mode mode = Mode::kSync;
  std::uint64_t staleness = 0;  // of mode bounded
  std::uint64_t seed = 1;
  std::uint64_t config_hash = 0;
  OptimizerRule optimizer;
  Encoding encoding = Encoding::kFp32;  // of weights that workers pull and of leaves that they push
  std::uint32_t window_blocks = 16;     // staged ahead of the lowest incomplete block; see AsyncCredit
  std::uint32_t block_elements = kBlockElements;
  Acknowledge acknowledge = Acknowledge::kReceived;
  std::uint64_t log_bytes_max = std::uint64_t{128} << 20;  // of pushes that wait for the log
  std::size_t log_records_max = std::size_t{1} << 16;
  // Slots' reports that wait until the coordinator counts their steps; there is room for those of one step in any case.
  std::size_t reports_max = 2 * kSlotsMax;
  std::uint64_t memory_bytes_max = UINT64_MAX;  // a catalog that would need more is refused
  ShardLife life;                               // what its directory remembers; the incarnation is in it already
  std::vector<SnapshotPart> parts;              // in its directory
  std::function<PeerId(const std::string& endpoint)> connect;  // to another shard
};

}  // namespace capstan::server
