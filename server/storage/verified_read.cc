#include "server/storage/verified_read.h"

#include "common/base/hash.h"
#include "common/wire/messages/snapshot_id.h"
#include "server/storage/snapshot.h"

namespace capstan::server {

std::string NameOfPart(SnapshotId id, ShardIndex part) {
  return "snapshot g" + std::to_string(id.generation.value) + "-v" + std::to_string(id.version.value) + ", part " +
         std::to_string(part);
}

Result<SnapshotHeader> ReadVerifiedHeader(const SnapshotReader& reader, SnapshotId id, ShardIndex part,
                                          std::uint64_t digest) {
  CAPSTAN_ASSIGN_OR_RETURN(const SharedHeader header, reader.ReadHeader(id, part));
  if (header->id != id || header->part != part || header->Digest() != digest) {
    return Corrupt(NameOfPart(id, part) + ": its header is not the one that the snapshot was made with");
  }
  return *header;
}

Status ReadVerified(const SnapshotReader& reader, const SnapshotHeader& header, const SnapshotHeader::BlockEntry& entry,
                    std::uint32_t array, std::span<std::byte> out) {
  CAPSTAN_RETURN_IF_ERROR(reader.ReadArray(header.id, header.part, entry.block, array, out));
  if (Hash64(out) == entry.hashes[array]) return {};
  return Corrupt(NameOfPart(header.id, header.part) + ": array " + std::to_string(array) + " of block " +
                 std::to_string(entry.block) + " is not what was written");
}

}  // namespace capstan::server
