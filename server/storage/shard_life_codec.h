// EncodeShardLife, DecodeShardLife: a shard's life as bytes, for its directory.
//
// Kind:   pure functions.
// Fails:  kCorrupt, kUnsupported (of a newer format).
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "server/storage/shard_life.h"

namespace capstan::server {

std::string EncodeShardLife(const ShardLife& life);
Result<ShardLife> DecodeShardLife(std::string_view bytes);

}  // namespace capstan::server
