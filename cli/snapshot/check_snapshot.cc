#include "cli/snapshot/check_snapshot.h"

#include <algorithm>

#include "server/storage/snapshot.h"
#include "server/storage/verified_read.h"

namespace capstan::cli {

namespace {

using server::ManifestRecord;
using server::NameOfPart;
using server::SnapshotHeader;

void CheckBlock(const RunSnapshots& run, const SnapshotHeader& header, const SnapshotHeader::BlockEntry& block,
                SnapshotCheck* check) {
  std::vector<std::byte> bytes(std::size_t{block.count} * sizeof(float));
  bool good = true;
  for (std::uint32_t array = 0; array < header.array_count; ++array) {
    const Status status = server::ReadVerified(*run.parts, header, block, array, bytes);
    good = good && status.ok();
    if (!status.ok()) check->problems.push_back(status.message());
    if (status.ok()) check->bytes += bytes.size();
  }
  if (good) ++check->blocks;
}

// Reports a problem unless every block of the model occurs exactly once.
void CheckBlocksAreAll(const RunSnapshots& run, std::vector<BlockIndex> blocks, SnapshotCheck* check) {
  std::sort(blocks.begin(), blocks.end());
  bool all = !run.catalog || blocks.size() == run.catalog->blocks().size();
  for (BlockIndex i = 0; i < blocks.size(); ++i) all = all && blocks[i] == i;
  if (!all) check->problems.push_back("the parts together do not have every block of the model once");
}

}  // namespace

Result<SnapshotHeader> ReadPartHeader(const RunSnapshots& run, const ManifestRecord& manifest, ShardIndex part) {
  Result<SnapshotHeader> header = server::ReadVerifiedHeader(*run.parts, manifest.id, part, manifest.digests[part]);
  if (header.status().code() == Code::kInvalid) {
    return Corrupt(NameOfPart(manifest.id, part) + " is missing in " + SnapshotFolder(run.run_dir) + "/shard-" +
                   std::to_string(part) + "; if that server ran on another machine, copy the folder from there");
  }
  if (!header.ok()) return header.status();
  if (header->job != run.job) return Corrupt(NameOfPart(manifest.id, part) + " is of another job");
  if (header->part_count != manifest.digests.size()) {
    return Corrupt(NameOfPart(manifest.id, part) + " is one of " + std::to_string(header->part_count) +
                   " parts, the manifest has " + std::to_string(manifest.digests.size()));
  }
  if (run.catalog && header->catalog_hash != run.catalog->hash()) {
    return Corrupt(NameOfPart(manifest.id, part) + " is of another model than the job's");
  }
  return header;
}

std::vector<std::string> BadParts(const RunSnapshots& run, const ManifestRecord& manifest) {
  std::vector<std::string> bad;
  for (ShardIndex part = 0; part < manifest.digests.size(); ++part) {
    const Status status = ReadPartHeader(run, manifest, part).status();
    if (!status.ok()) bad.push_back(status.message());
  }
  return bad;
}

SnapshotCheck CheckSnapshot(const RunSnapshots& run, const ManifestRecord& manifest) {
  SnapshotCheck check;
  std::vector<BlockIndex> blocks;
  for (ShardIndex part = 0; part < manifest.digests.size(); ++part) {
    const Result<SnapshotHeader> header = ReadPartHeader(run, manifest, part);
    if (!header.ok()) {
      check.problems.push_back(header.status().message());
      continue;
    }
    for (const SnapshotHeader::BlockEntry& block : header->blocks) {
      blocks.push_back(block.block);
      CheckBlock(run, *header, block, &check);
    }
  }
  if (check.problems.empty()) CheckBlocksAreAll(run, std::move(blocks), &check);
  if (check.problems.empty() && check.bytes != manifest.bytes) {
    check.problems.push_back("it has " + std::to_string(check.bytes) + " bytes, its manifest says " +
                             std::to_string(manifest.bytes));
  }
  return check;
}

}  // namespace capstan::cli
