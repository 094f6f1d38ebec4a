#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/hash.h"
#include "server/storage/owned_slice.h"
#include "server/storage/shard_disk.h"
#include "server/storage/snapshot_store.h"
#include "server/storage/verified_read.h"

namespace capstan::server {

namespace {

std::size_t BytesOf(std::uint32_t elements) { return std::size_t{elements} * sizeof(float); }

Status LoadBlock(const SnapshotStore& store, const SnapshotHeader& header, const SnapshotHeader::BlockEntry& entry,
                 const LoadTarget& target) {
  const auto arrays = std::count_if(target.arrays.begin(), target.arrays.end(),
                                    [](const BufferRef& array) { return static_cast<bool>(array); });
  if (entry.count != target.count || header.array_count != arrays) {
    return Corrupt(NameOfPart(header.id, header.part) + ": block " + std::to_string(entry.block) + " has " +
                   std::to_string(header.array_count) + " arrays of " + std::to_string(entry.count) +
                   " elements, the job's has " + std::to_string(arrays) + " of " + std::to_string(target.count));
  }
  for (std::uint32_t i = 0; i < header.array_count; ++i) {
    CAPSTAN_CHECK(target.arrays[i] && target.arrays[i]->size() >= BytesOf(target.count));
    const std::span<std::byte> out(target.arrays[i]->data(), BytesOf(target.count));
    CAPSTAN_RETURN_IF_ERROR(ReadVerified(store, header, entry, i, out));
  }
  return {};
}

Status LoadPart(const SnapshotStore& store, const LoadSnapshot& work, const LoadSnapshot::OwnPart& part,
                std::vector<SnapshotHeader>* headers) {
  CAPSTAN_ASSIGN_OR_RETURN(SnapshotHeader header, ReadVerifiedHeader(store, work.id, part.part, part.digest));
  for (const LoadTarget& target : work.targets) {
    const SnapshotHeader::BlockEntry* entry = header.Find(target.block);
    if (entry != nullptr) CAPSTAN_RETURN_IF_ERROR(LoadBlock(store, header, *entry, target));
  }
  headers->push_back(std::move(header));
  return {};
}

DiskResult Do(PersistIdentity work, SnapshotStore* store) {
  Status status = store->PersistIdentity(work.identity);
  return IdentityPersisted{work.identity, std::move(status)};
}

DiskResult Do(WriteSnapshot work, SnapshotStore* store) {
  SnapshotWritten result;
  result.id = work.image.header.id;
  result.parameters = work.image.header.parameters;
  static constexpr std::atomic<bool> kNever{false};
  const Result<SnapshotStore::Written> written =
      store->Write(std::move(work.image), work.cancelled != nullptr ? *work.cancelled : kNever);
  result.status = written.status();
  if (!written.ok()) return result;
  result.digest = written->digest;
  result.bytes = written->bytes;
  return result;
}

DiskResult Do(LoadSnapshot work, SnapshotStore* store) {
  SnapshotLoaded result;
  result.generation = work.generation;
  for (const LoadSnapshot::OwnPart& part : work.parts) {
    result.status = LoadPart(*store, work, part, &result.headers);
    if (!result.status.ok()) break;
  }
  if (!result.status.ok()) result.headers.clear();
  return result;
}

Status ReadBlockForPeer(const SnapshotStore& store, const SnapshotHeader& header, PeerRead* result) {
  const SnapshotHeader::BlockEntry* entry = header.Find(result->wanted.block);
  if (entry == nullptr) {
    return Invalid(NameOfPart(header.id, header.part) + " has no block " + std::to_string(result->wanted.block));
  }
  std::vector<Slice> arrays;
  for (std::uint32_t i = 0; i < header.array_count; ++i) {
    arrays.push_back(NewSlice(BytesOf(entry->count)));
    const std::span<std::byte> out(arrays.back().owner->data(), arrays.back().size);
    CAPSTAN_RETURN_IF_ERROR(ReadVerified(store, header, *entry, i, out));
  }
  result->entry = *entry;
  result->arrays = std::move(arrays);
  result->hashes.assign(entry->hashes.begin(), entry->hashes.begin() + header.array_count);
  return {};
}

Status EncodeForPeer(const SnapshotHeader& header, PeerRead* result) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string bytes, EncodeSnapshotHeader(header));
  for (std::size_t at = 0; at < bytes.size(); at += kHeaderPieceBytes) {
    result->arrays.push_back(SliceOf(bytes.substr(at, kHeaderPieceBytes)));
    result->hashes.push_back(Hash64(result->arrays.back().bytes()));
  }
  return {};
}

Status ReadPartForPeer(const SnapshotStore& store, PeerRead* result) {
  CAPSTAN_ASSIGN_OR_RETURN(const SharedHeader header, store.ReadHeader(result->wanted.snapshot, result->wanted.part));
  if (result->wanted.block != kFetchHeader) return ReadBlockForPeer(store, *header, result);
  return EncodeForPeer(*header, result);
}

DiskResult Do(ReadForPeer work, SnapshotStore* store) {
  PeerRead result;
  result.peer = work.peer;
  result.wanted = work.wanted;
  result.status = ReadPartForPeer(*store, &result);
  return result;
}

// Removes parts. A part that is not there counts as removed.
DiskResult Do(RemoveParts work, SnapshotStore* store) {
  PartsRemoved result;
  for (const SnapshotPart& part : work.parts) {
    Status status = store->Remove(part.id, part.part);
    if (!status.ok() && status.code() != Code::kInvalid && result.status.ok()) result.status = std::move(status);
  }
  result.parts = std::move(work.parts);
  return result;
}

}  // namespace

DiskResult Execute(DiskWork work, SnapshotStore* store) {
  return std::visit([store](auto&& one) { return Do(std::move(one), store); }, std::move(work));
}

}  // namespace capstan::server
