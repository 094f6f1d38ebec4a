// Tools of the tests of storage: folders that are removed afterwards, and snapshots whose contents follow from a seed.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "common/base/random.h"
#include "server/storage/coordinator_log.h"
#include "server/storage/shard_disk.h"
#include "server/storage/storage_json.h"
#include "tests/common/wire/random_fields.h"
#include "tests/temp_folder.h"

namespace capstan::server {

using testing::TempFolder;

inline std::string ReadWholeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}
inline void WriteWholeFile(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

inline BufferRef NewBuffer(std::size_t bytes) {
  auto* memory = new std::vector<std::byte>(bytes);
  const auto free = [](void* context) { delete static_cast<std::vector<std::byte>*>(context); };
  return WrapForeign(memory->data(), bytes, free, memory);
}

struct ImageShape {
  BlockIndex block_count = 5;
  std::uint32_t elements = 300;  // of most blocks
  std::uint32_t array_count = 3;
  SlotIndex slot_count = 4;
};

// Fills in the bytes of a block's array. They are a function of the snapshot, the part, the block and the array.
inline void FillArray(SnapshotId id, ShardIndex part, BlockIndex block, std::uint32_t array, std::span<std::byte> out) {
  const std::uint64_t key = PhiloxKey(id.generation.value, id.version.value, part);
  std::uint64_t number = 0;
  for (std::size_t at = 0; at < out.size(); at += 4, ++number) {
    const Random4 r = Philox(key, number, std::uint64_t{block} << 8 | array);
    std::memcpy(out.data() + at, r.data(), std::min<std::size_t>(4, out.size() - at));
  }
}

inline SnapshotImage MakeImage(SnapshotId id, ShardIndex part, ImageShape shape = {}) {
  SnapshotImage image;
  SnapshotHeader& header = image.header;
  header.job = {7, 9};
  header.id = id;
  header.part = part;
  header.part_count = part + 2;
  header.catalog_hash = 0xFEDCBA9876543210;
  header.array_count = shape.array_count;
  header.parameters.updates = id.version.value;
  header.parameters.learning_rate = 0.1F;
  if (id.version.value % 2 == 1) header.parameters.program_state = std::string("\0\xFFstate", 7);
  header.slot_count = shape.slot_count;
  header.ended.assign(shape.slot_count, {id.version.value});
  for (BlockIndex i = 0; i < shape.block_count; ++i) {
    const BlockIndex block = i * 3 + part;
    const std::uint32_t count = shape.elements + (i % 4 == 3 ? 17 : 0);
    header.blocks.push_back({block, count, i, std::vector<SequenceNumber>(shape.slot_count, {i}), {}});
    image.arrays.emplace_back();
    for (std::uint32_t a = 0; a < shape.array_count; ++a) {
      const BufferRef buffer = NewBuffer(std::size_t{count} * 4);
      FillArray(id, part, block, a, {buffer->data(), buffer->size()});
      image.arrays.back()[a] = WholeBuffer(buffer);
    }
  }
  return image;
}

inline LoadSnapshot LoadWork(const SnapshotImage& like, std::uint64_t digest) {
  LoadSnapshot work;
  work.generation = {99};
  work.id = like.header.id;
  work.parts = {{like.header.part, digest}};
  for (const SnapshotHeader::BlockEntry& block : like.header.blocks) {
    LoadTarget target{block.block, block.count, {}};
    for (std::uint32_t a = 0; a < like.header.array_count; ++a) target.arrays[a] = NewBuffer(block.count * 4);
    work.targets.push_back(std::move(target));
  }
  return work;
}

// Loads a part through Execute. Returns the status of the load, or kStale if it succeeds with other bytes than
// MakeImage's.
inline Status LoadAndCompare(SnapshotStore* store, SnapshotId id, ShardIndex part, std::uint64_t digest,
                             ImageShape shape = {}) {
  const SnapshotImage like = MakeImage(id, part, shape);
  const LoadSnapshot work = LoadWork(like, digest);
  const DiskResult result = Execute(LoadSnapshot(work), store);
  CAPSTAN_RETURN_IF_ERROR(std::get<SnapshotLoaded>(result).status);
  for (std::size_t i = 0; i < like.arrays.size(); ++i) {
    for (std::uint32_t a = 0; a < shape.array_count; ++a) {
      const Slice& wanted = like.arrays[i][a];
      const BufferRef& got = work.targets[i].arrays[a];
      if (std::memcmp(wanted.data, got->data(), wanted.size) != 0)
        return {Code::kStale, "WRONG BYTES were called good"};
    }
  }
  return {};
}

inline const std::atomic<bool> kNotCancelled{false};

// These functions are for testing::Fill and testing::Same, which find them by the arguments' namespace.
template <class Visitor, MaybeConst<SnapshotHeader::BlockEntry> M>
void Fields(Visitor& v, M& m) {
  v(m.block);
  v(m.count);
  v(m.updates);
  v(m.last);
  v(m.hashes);
}
template <class Visitor, MaybeConst<SnapshotHeader> M>
void Fields(Visitor& v, M& m) {
  v(m.job);
  v(m.id);
  v(m.part);
  v(m.part_count);
  v(m.catalog_hash);
  v(m.array_count);
  v(m.parameters);
  v(m.slot_count);
  v(m.ended);
  v(m.log_begin);
  v(m.reports);
  v(m.blocks);
}
template <class Visitor, MaybeConst<ShardIdentity> M>
void Fields(Visitor& v, M& m) {
  v(m.job);
  v(m.shard);
  v(m.incarnation);
  v(m.term);
  v(m.generation);
  v(m.newest_retained);
}
template <class Visitor, MaybeConst<JobRecord> M>
void Fields(Visitor& v, M& m) {
  v(m.job);
  v(m.job_file);
}
template <class Visitor, MaybeConst<CatalogRecord> M>
void Fields(Visitor& v, M& m) {
  v(m.tensors);
  v(m.numeric_class);
  v(m.numeric_fingerprint);
  v(m.data_fingerprint);
}
template <class Visitor, MaybeConst<TermRecord> M>
void Fields(Visitor& v, M& m) {
  v(m.term);
}
template <class Visitor, MaybeConst<RecoverRecord> M>
void Fields(Visitor& v, M& m) {
  v(m.generation);
  v(m.snapshot);
  v(m.parameters);
  v(m.timeline);
}
template <class Visitor, MaybeConst<RunningRecord> M>
void Fields(Visitor& v, M& m) {
  v(m.generation);
  v(m.incarnations);
}
template <class Visitor, MaybeConst<ManifestRecord> M>
void Fields(Visitor& v, M& m) {
  v(m.id);
  v(m.parameters);
  v(m.digests);
  v(m.bytes);
}
template <class Visitor, MaybeConst<DoneRecord> M>
void Fields(Visitor&, M&) {}

}  // namespace capstan::server

namespace capstan::testing {

// Random contents of what a coordinator stores: what it counts up is at most kCountMax.
struct StoredContents {
  std::uint64_t Below(std::uint64_t bound) { return random.Below(bound); }
  std::uint64_t Next64() { return random.Next64(); }

  RandomStream& random;
};
template <class Tag>
void Fill(Number<Tag>& number, StoredContents& contents) {
  Fill(number.value, contents);
  number.value %= server::kCountMax + 1;
}
template <class T>
void FillAsStored(T& value, RandomStream& random) {
  StoredContents contents{random};
  Fill(value, contents);
  if constexpr (requires { value.parameters.updates; }) value.parameters.updates %= server::kCountMax + 1;
}

template <std::size_t kKind = 0>
server::LogRecord RandomRecord(std::size_t kind, RandomStream& random) {
  if constexpr (kKind < std::variant_size_v<server::LogRecord>) {
    if (kind != kKind) return RandomRecord<kKind + 1>(kind, random);
    std::variant_alternative_t<kKind, server::LogRecord> record;
    FillAsStored(record, random);
    return record;
  } else {
    return server::DoneRecord{};
  }
}

inline bool SameRecord(server::LogRecord a, server::LogRecord b) {
  if (a.index() != b.index()) return false;
  return std::visit([&](auto& record) { return Same(record, std::get<std::decay_t<decltype(record)>>(b)); }, a);
}

// Makes a header with random contents that are consistent.
inline server::SnapshotHeader RandomSnapshotHeader(RandomStream& random) {
  server::SnapshotHeader header;
  FillAsStored(header, random);
  header.array_count = 1 + static_cast<std::uint32_t>(random.Below(server::kBlockArraysMax));
  header.part_count = std::max(header.part_count, 1U);
  header.part %= header.part_count;
  header.slot_count = 1 + static_cast<SlotIndex>(random.Below(9));
  header.ended.resize(random.Below(2) * header.slot_count);
  for (StepReport& entry : header.reports) {
    entry.report.slot %= header.slot_count;
    entry.report.gradient_squares = 0.0;  // modes with stored reports have none
    entry.report.replica_hash = 0;
    entry.report.clipping = {};
  }
  BlockIndex next = 0;
  for (server::SnapshotHeader::BlockEntry& block : header.blocks) {
    block.block = next + static_cast<BlockIndex>(random.Below(5));
    next = block.block + 1;
    block.last.resize(random.Below(2) * header.slot_count);
    for (std::size_t i = header.array_count; i < server::kBlockArraysMax; ++i) block.hashes[i] = 0;
  }
  return header;
}

}  // namespace capstan::testing
