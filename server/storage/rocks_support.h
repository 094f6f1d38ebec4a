// RocksDB options, keys and errors that the rocks_* files share. Only they include it.
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

// The system's files, readable and writable by their owner only.
std::unique_ptr<rocksdb::Env> CreatePrivateEnv();

// All checks on and small buffers, because snapshots bypass RocksDB's memory.
rocksdb::Options StrictOptions(rocksdb::Env* env);
// Options of a snapshot's family and of the files that are ingested into it.
rocksdb::Options SnapshotOptions(rocksdb::Env* env);

// Keys sort in the order of blocks, and the header's key comes last.
std::string ArrayKey(BlockIndex block, std::uint32_t array);
std::string HeaderKey();

// kBusy (no room on the disk), kCorrupt, kInvalid (not found), or kUnreachable; the message begins with `where`.
Status FromRocks(const rocksdb::Status& status, const std::string& where);

// What `body` returns, a Status or a Result; kUnreachable if a library throws.
template <class Body>
std::invoke_result_t<Body> Guarded(const char* where, Body body) {
  try {
    return body();
  } catch (const std::exception& failure) {
    return Unreachable(std::string(where) + ": " + failure.what());
  }
}

}  // namespace capstan::server
