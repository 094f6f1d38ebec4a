#include "server/storage/shard_life_codec.h"

#include <exception>

#include "server/storage/sealed_text.h"
#include "server/storage/storage_json.h"

namespace capstan::server {

namespace {

constexpr std::uint64_t kLifeFormat = 1;

Result<ShardLife> DecodeChecked(std::string_view bytes) {
  const std::optional<std::string_view> text = Unseal(0, bytes);
  if (!text) return Corrupt("what the shard remembers does not match its own hash");
  const Json json = ParseJson(*text);
  std::uint64_t format = 0;
  if (!ReadNumber(Member(json, "format"), &format)) return Corrupt("what the shard remembers states no format");
  if (format > kLifeFormat) {
    return Unsupported("what the shard remembers is of format " + std::to_string(format) + ", this build reads up to " +
                       std::to_string(kLifeFormat) + "; use the build that wrote it, or a newer one");
  }
  ShardLife life;
  const bool good =
      format == kLifeFormat && ReadJob(Member(json, "job"), &life.job) &&
      ReadNumber(Member(json, "shard"), &life.shard) && ReadNumber(Member(json, "incarnation"), &life.incarnation) &&
      ReadNumber(Member(json, "term"), &life.term) && ReadNumber(Member(json, "generation"), &life.generation) &&
      ReadSnapshotId(Member(json, "newest_kept"), &life.newest_kept);
  if (!good) return Corrupt("what the shard remembers is malformed");
  return life;
}

}  // namespace

std::string EncodeShardLife(const ShardLife& life) {
  Json json;
  json["format"] = kLifeFormat;
  json["job"] = ToJson(life.job);
  json["shard"] = life.shard;
  json["incarnation"] = life.incarnation.value;
  json["term"] = life.term.value;
  json["generation"] = life.generation.value;
  json["newest_kept"] = ToJson(life.newest_kept);
  return Seal(0, TextOf(json));
}

Result<ShardLife> DecodeShardLife(std::string_view bytes) {
  try {
    return DecodeChecked(bytes);
  } catch (const std::exception& failure) {  // from the JSON library
    return Corrupt(std::string("what the shard remembers is malformed: ") + failure.what());
  }
}

}  // namespace capstan::server
