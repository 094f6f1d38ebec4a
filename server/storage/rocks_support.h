// What the files around RocksDB share: its options, keys and errors. Included by server/rocks_* alone.
//
// Kind:   pure functions and values.
#pragma once

#include <rocksdb/env.h>
#include <rocksdb/options.h>
#include <rocksdb/status.h>

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/base/types.h"

namespace capstan::server {

// The system's files, readable and writable by their owner only.
std::unique_ptr<rocksdb::Env> CreatePrivateEnv();

// As strict as it goes, and small: snapshots go around all that RocksDB keeps in memory.
rocksdb::Options StrictOptions(rocksdb::Env* env);
// For the family of a snapshot, and for the files that go into it.
rocksdb::Options SnapshotOptions(rocksdb::Env* env);

// In the order of blocks; behind all of them, the header.
std::string ArrayKey(BlockIndex block, std::uint32_t array);
std::string HeaderKey();

// kCorrupt, kInvalid (not found), or kUnreachable; the message begins with `where`.
Status FromRocks(const rocksdb::Status& status, const std::string& where);

}  // namespace capstan::server
