// DiskCalls: records this program's disk calls in order, and can make any of them fail or end the process.
//
// Kind:   for a test program, one object at a time. It records the calls of all threads.
// Why:    the test program replaces the C library's functions (disk_calls.cc), so the calls of other libraries, such as
//         RocksDB, are recorded too. The order of renames and fsyncs shows what a power cut would leave.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "common/base/mailbox.h"

namespace capstan::testing {

class DiskCalls {
 public:
  struct Call {
    enum class Kind { kCreate, kWrite, kTruncate, kSync, kRename, kMakeFolder, kUnlink } kind;
    std::string path;
    std::string to;  // kRename
    bool failed = false;
  };

  // Only calls on paths that begin with `below` are recorded.
  explicit DiskCalls(std::string below);
  DiskCalls(const DiskCalls&) = delete;
  DiskCalls& operator=(const DiskCalls&) = delete;
  ~DiskCalls();

  // If set, it returns the errno with which a call fails instead of being made; 0: the call is made. It is called under
  // a lock, so it must make no disk call. Set it and `end_at` only while no other thread makes disk calls.
  std::function<int(const Call&)> fail;
  // The process ends before call number `end_at`, counted from 0, as after kill -9.
  std::size_t end_at = SIZE_MAX;

  std::vector<Call> calls();
  // Returns one line for each thing that a power cut could lose or tear: a file whose bytes are not synced, or were not
  // before its renaming, and a name in a folder that is not synced.
  std::vector<std::string> NotDurable();

  // Records a call; returns the errno with which it must fail, or 0. For disk_calls.cc.
  int Add(Call::Kind kind, const std::string& path, const std::string& to = "");

 private:
  const std::string below_;
  Guarded<std::vector<Call>> calls_;
};

}  // namespace capstan::testing
