// The target reads any text as a shard's stored identity (`ShardLife`): it is refused, or can be written and read back
// unchanged.
#include "server/storage/sealed_text.h"
#include "server/storage/shard_life_codec.h"
#include "tests/fuzz/target.h"

namespace capstan::fuzz {
namespace {

void CheckShardLife(std::string_view sealed) {
  const Result<server::ShardLife> life = server::DecodeShardLife(sealed);
  if (!life.ok()) return RequireReason(life.status(), "what the shard remembers");
  const Result<server::ShardLife> again = server::DecodeShardLife(server::EncodeShardLife(*life));
  Require(again.ok() && *again == *life, "a life is read as it was written");
}

void RunShardLife(std::string_view text) {
  CheckShardLife(text);
  CheckShardLife(server::Seal(0, text));
}

const Registered shard_life_target({"shard_life", RunShardLife});

}  // namespace
}  // namespace capstan::fuzz
