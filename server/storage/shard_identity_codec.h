// EncodeShardIdentity, DecodeShardIdentity: a ShardIdentity as bytes, for the shard's directory.
//
// Kind:   pure functions.
// Fails:  kCorrupt, kUnsupported (a newer format).
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "server/storage/shard_identity.h"

namespace capstan::server {

std::string EncodeShardIdentity(const ShardIdentity& identity);
Result<ShardIdentity> DecodeShardIdentity(std::string_view bytes);

}  // namespace capstan::server
