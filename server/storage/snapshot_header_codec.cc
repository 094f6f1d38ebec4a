#include <exception>

#include "common/wire/messages/limits.h"
#include "server/storage/sealed_text.h"
#include "server/storage/shard_disk.h"
#include "server/storage/storage_json.h"

namespace capstan::server {

namespace {

using server::ToJson;

constexpr std::uint64_t kHeaderFormat = 1;
constexpr std::size_t kBlocksMax = std::size_t{1} << 22;
constexpr std::size_t kReportsMax = 65536;

Json ToJson(const SnapshotHeader::BlockEntry& block, std::uint32_t array_count) {
  JsonList hashes;
  for (std::uint32_t i = 0; i < array_count; ++i) hashes.Number(block.hashes[i]);
  return JsonList()
      .Number(block.block)
      .Number(block.count)
      .Number(block.updates)
      .Value(ToJson(block.last))
      .Value(hashes.Take())
      .Take();
}

Json ToJson(const SnapshotHeader& header) {
  JsonObject json;
  json.Number("format", kHeaderFormat)
      .Value("job", ToJson(header.job))
      .Value("id", ToJson(header.id))
      .Number("part", header.part)
      .Number("part_count", header.part_count)
      .Number("catalog_hash", header.catalog_hash)
      .Number("array_count", header.array_count)
      .Value("parameters", ToJson(header.parameters))
      .Number("slot_count", header.slot_count)
      .Value("ended", ToJson(header.ended));
  if (header.log_begin != 0) json.Number("log_begin", header.log_begin);
  JsonList reports, blocks;
  for (const StepReport& entry : header.reports) reports.Value(ToJson(entry));
  for (const SnapshotHeader::BlockEntry& block : header.blocks) blocks.Value(ToJson(block, header.array_count));
  return json.Value("reports", reports.Take()).Value("blocks", blocks.Take()).Take();
}

bool ReadBlock(const Json* json, std::uint32_t array_count, SnapshotHeader::BlockEntry* block) {
  const Json* hashes = Element(*json, 4);
  bool good = ElementCount(*json) == 5 && ReadNumber(Element(*json, 0), &block->block, kFetchQuestion - 1) &&
              ReadNumber(Element(*json, 1), &block->count) && ReadNumber(Element(*json, 2), &block->updates) &&
              ReadNumbers(Element(*json, 3), &block->last, kSlotsMax) && ElementCount(*hashes) == array_count;
  for (std::uint32_t i = 0; good && i < array_count; ++i) good = ReadNumber(Element(*hashes, i), &block->hashes[i]);
  return good;
}

bool ReadHeader(const Json& json, SnapshotHeader* header) {
  const Json* log_begin = Member(json, "log_begin");
  return (log_begin == nullptr || ReadNumber(log_begin, &header->log_begin)) &&
         ReadJob(Member(json, "job"), &header->job) && ReadSnapshotId(Member(json, "id"), &header->id) &&
         ReadNumber(Member(json, "part"), &header->part) &&
         ReadNumber(Member(json, "part_count"), &header->part_count) &&
         ReadNumber(Member(json, "catalog_hash"), &header->catalog_hash) &&
         ReadNumber(Member(json, "array_count"), &header->array_count, kBlockArraysMax) && header->array_count > 0 &&
         ReadParameters(Member(json, "parameters"), &header->parameters) &&
         ReadNumber(Member(json, "slot_count"), &header->slot_count, kSlotsMax) &&
         ReadNumbers(Member(json, "ended"), &header->ended, kSlotsMax) &&
         ReadList(Member(json, "reports"), &header->reports, kReportsMax, ReadReport) &&
         ReadList(Member(json, "blocks"), &header->blocks, kBlocksMax,
                  [&](const Json* from, SnapshotHeader::BlockEntry* block) {
                    return ReadBlock(from, header->array_count, block);
                  });
}

// Whether the indices of the part and of slots are in range, and each list per slot is empty or complete.
bool FitsTogether(const SnapshotHeader& header) {
  const auto per_slot = [&](const std::vector<SequenceNumber>& list) {
    return list.empty() || list.size() == header.slot_count;
  };
  bool fits = header.part < header.part_count && per_slot(header.ended);
  for (const StepReport& entry : header.reports) fits = fits && entry.report.slot < header.slot_count;
  for (const SnapshotHeader::BlockEntry& block : header.blocks) fits = fits && per_slot(block.last);
  return fits;
}

bool Ascends(const std::vector<SnapshotHeader::BlockEntry>& blocks) {
  for (std::size_t i = 1; i < blocks.size(); ++i) {
    if (blocks[i - 1].block >= blocks[i].block) return false;
  }
  return true;
}

Result<SnapshotHeader> DecodeHeaderText(std::string_view bytes) {
  if (bytes.size() > kPartHeaderBytesMax) {
    return Corrupt("the header of a snapshot's part has " + std::to_string(bytes.size()) + " bytes, at most " +
                   std::to_string(kPartHeaderBytesMax) + " are read");
  }
  const std::optional<std::string_view> text = Unseal(0, bytes);
  if (!text) return Corrupt("the header of a snapshot's part does not match its own hash");
  const Json json = ParseJson(*text);
  std::uint64_t format = 0;
  if (!ReadNumber(Member(json, "format"), &format))
    return Corrupt("a snapshot's part has no header that states a format");
  if (format > kHeaderFormat) {
    return Unsupported("the snapshot's part is of format " + std::to_string(format) + ", this build reads up to " +
                       std::to_string(kHeaderFormat) + "; use the build that wrote it, or a newer one");
  }
  SnapshotHeader header;
  if (format != kHeaderFormat || !ReadHeader(json, &header))
    return Corrupt("the header of a snapshot's part is malformed");
  if (!FitsTogether(header)) return Corrupt("the lists in the header of a snapshot's part do not fit together");
  if (!Ascends(header.blocks)) return Corrupt("the blocks of a snapshot's part are not in ascending order");
  return header;
}

}  // namespace

// Decodes the bytes again before it returns them, so that no header is written which the decoder would refuse.
Result<std::string> EncodeSnapshotHeader(const SnapshotHeader& header) {
  std::string bytes = Seal(0, TextOf(ToJson(header)));
  const Result<SnapshotHeader> back = DecodeSnapshotHeader(bytes);
  if (!back.ok()) return Invalid("this part cannot be written so that it can be read: " + back.status().message());
  if (back->Digest() != header.Digest()) return Invalid("the header of a part is read back as another one");
  return bytes;
}

Result<SnapshotHeader> DecodeSnapshotHeader(std::string_view bytes) {
  try {
    return DecodeHeaderText(bytes);
  } catch (const std::exception& failure) {  // from the JSON library
    return Corrupt(std::string("the header of a snapshot's part is malformed: ") + failure.what());
  }
}

}  // namespace capstan::server
