// ReadVerifiedHeader, ReadVerified: read a part of a snapshot and check it: the header against the digest in the
// manifest, an array against its hash in the header.
//
// Kind:   functions that read from a SnapshotReader.
// Fails:  kCorrupt: the data does not match; or the reader's failure.
#pragma once

#include <span>
#include <string>

#include "common/base/status.h"
#include "server/storage/snapshot.h"
#include "server/storage/snapshot_store.h"

namespace capstan::server {

// Names a part in messages, such as "snapshot g1-v40, part 2".
std::string NameOfPart(SnapshotId id, ShardIndex part);

// Reads a part's header and verifies it. `digest`: the part's digest in the manifest.
Result<SnapshotHeader> ReadVerifiedHeader(const SnapshotReader& reader, SnapshotId id, ShardIndex part,
                                          std::uint64_t digest);

// Reads the block's array number `array` into `out`, and verifies it. The array must have exactly out.size() bytes.
Status ReadVerified(const SnapshotReader& reader, const SnapshotHeader& header, const SnapshotHeader::BlockEntry& entry,
                    std::uint32_t array, std::span<std::byte> out);

}  // namespace capstan::server
