#include "server/storage/shard_identity_codec.h"

#include <exception>

#include "server/storage/sealed_text.h"
#include "server/storage/storage_json.h"

namespace capstan::server {

namespace {

constexpr std::uint64_t kIdentityFormat = 1;

Result<ShardIdentity> DecodeChecked(std::string_view bytes) {
  const std::optional<std::string_view> text = Unseal(0, bytes);
  if (!text) return Corrupt("what the shard remembers does not match its own hash");
  const Json json = ParseJson(*text);
  std::uint64_t format = 0;
  if (!ReadNumber(Member(json, "format"), &format)) return Corrupt("what the shard remembers states no format");
  if (format > kIdentityFormat) {
    return Unsupported("what the shard remembers is of format " + std::to_string(format) + ", this build reads up to " +
                       std::to_string(kIdentityFormat) + "; use the build that wrote it, or a newer one");
  }
  ShardIdentity identity;
  const bool good = format == kIdentityFormat && ReadJob(Member(json, "job"), &identity.job) &&
                    ReadNumber(Member(json, "shard"), &identity.shard) &&
                    ReadNumber(Member(json, "incarnation"), &identity.incarnation) &&
                    ReadNumber(Member(json, "term"), &identity.term) &&
                    ReadNumber(Member(json, "generation"), &identity.generation) &&
                    ReadSnapshotId(Member(json, "newest_kept"), &identity.newest_retained);
  if (!good) return Corrupt("what the shard remembers is malformed");
  return identity;
}

}  // namespace

std::string EncodeShardIdentity(const ShardIdentity& identity) {
  Json json;
  json["format"] = kIdentityFormat;
  json["job"] = ToJson(identity.job);
  json["shard"] = identity.shard;
  json["incarnation"] = identity.incarnation.value;
  json["term"] = identity.term.value;
  json["generation"] = identity.generation.value;
  json["newest_kept"] = ToJson(identity.newest_retained);
  return Seal(0, TextOf(json));
}

Result<ShardIdentity> DecodeShardIdentity(std::string_view bytes) {
  try {
    return DecodeChecked(bytes);
  } catch (const std::exception& failure) {  // from the JSON library
    return Corrupt(std::string("what the shard remembers is malformed: ") + failure.what());
  }
}

}  // namespace capstan::server
