// EncodeShardLife, DecodeShardLife: a ShardLife as bytes, for the shard's directory.
//
// Kind:   pure functions.
// Fails:  kCorrupt, kUnsupported (a newer format).
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "server/storage/shard_life.h"

namespace capstan::server {

std::string EncodeShardLife(const ShardLife& life);
Result<ShardLife> DecodeShardLife(std::string_view bytes);

}  // namespace capstan::server
