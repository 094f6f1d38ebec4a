// RocksDB options, keys and errors that the rocks_* files share. Only those files include this header.
//
// Kind:   pure functions and values.
#pragma once

#include <rocksdb/env.h>
#include <rocksdb/options.h>
#include <rocksdb/status.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <type_traits>

#include "common/base/status.h"
#include "common/base/types.h"

namespace capstan::server {

// Returns the system's Env, with files that only their owner can read and write.
std::unique_ptr<rocksdb::Env> CreatePrivateEnv();

// Returns options with strict checks, and with small buffers because snapshots bypass RocksDB's memory.
rocksdb::Options StrictOptions(rocksdb::Env* env);
// Returns the options of a column family that has one snapshot, and of the files that are ingested into the family.
rocksdb::Options SnapshotOptions(rocksdb::Env* env);

// Keys sort in the order of blocks, and the header's key comes last.
std::string ArrayKey(BlockIndex block, std::uint32_t array);
std::string HeaderKey();

// Translates a status: kBusy (no room on the disk), kCorrupt, kInvalid (not found), or kUnreachable. The message begins
// with `where`.
Status FromRocks(const rocksdb::Status& status, const std::string& where);

// Returns what `body` returns, a Status or a Result; kUnreachable if a library throws.
template <class Body>
std::invoke_result_t<Body> WithoutExceptions(const char* where, Body body) {
  try {
    return body();
  } catch (const std::exception& failure) {
    return Unreachable(std::string(where) + ": " + failure.what());
  }
}

}  // namespace capstan::server
