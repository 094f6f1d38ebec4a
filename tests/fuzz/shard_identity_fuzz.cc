// The target reads the input as a shard's stored identity (`ShardIdentity`). Either the identity is refused, or it can
// be written and read back unchanged.
#include "server/storage/sealed_text.h"
#include "server/storage/shard_identity_codec.h"
#include "tests/fuzz/target.h"

namespace capstan::fuzz {
namespace {

void CheckShardIdentity(std::string_view sealed) {
  const Result<server::ShardIdentity> identity = server::DecodeShardIdentity(sealed);
  if (!identity.ok()) return RequireReason(identity.status(), "what the shard remembers");
  const Result<server::ShardIdentity> again = server::DecodeShardIdentity(server::EncodeShardIdentity(*identity));
  Require(again.ok() && *again == *identity, "an identity is read as it was written");
}

void RunShardIdentity(std::string_view text) {
  CheckShardIdentity(text);
  CheckShardIdentity(server::Seal(0, text));
}

const Registered shard_identity_target({"shard_identity", RunShardIdentity});

}  // namespace
}  // namespace capstan::fuzz
