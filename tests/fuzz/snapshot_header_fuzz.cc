// The target reads the input as the header of a snapshot's part. Either the header is refused, or it can be written and
// read back unchanged.
#include "server/storage/sealed_text.h"
#include "server/storage/shard_disk.h"
#include "tests/fuzz/target.h"

namespace capstan::fuzz {
namespace {

void CheckSnapshotHeader(std::string_view sealed) {
  const Result<server::SnapshotHeader> header = server::DecodeSnapshotHeader(sealed);
  if (!header.ok()) return RequireReason(header.status(), "snapshot's part");
  Require(header->part < header->part_count, "a part is one of those that its header counts");
  const std::string encoded = server::EncodeSnapshotHeader(*header).value();
  const Result<server::SnapshotHeader> again = server::DecodeSnapshotHeader(encoded);
  Require(again.ok(), "a header that is accepted can be written and read");
  Require(server::EncodeSnapshotHeader(*again).value() == encoded, "a header is written as it was read");
  Require(again->Digest() == header->Digest(), "a header keeps its digest");
}

void RunSnapshotHeader(std::string_view text) {
  CheckSnapshotHeader(text);
  CheckSnapshotHeader(server::Seal(0, text));
}

const Registered snapshot_header_target({"snapshot_header", RunSnapshotHeader});

}  // namespace
}  // namespace capstan::fuzz
