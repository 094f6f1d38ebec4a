// DiskCalls: what this program asks of its disk, in order; it can be made to fail, or to end the process, at any of them.
//
// Kind:   of a test program, one at a time; the calls of all threads while it lives.
// Why:    the functions of the C library are replaced in the test's own program (disk_calls.cc), so every writer is
//         seen, RocksDB's too. What a power cut would leave follows from the order of renames and fsyncs.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace capstan::testing {

class DiskCalls {
 public:
  struct Call {
    enum class Kind { kCreate, kWrite, kTruncate, kSync, kRename, kMakeFolder, kUnlink } kind;
    std::string path;
    std::string to;  // kRename
    bool failed = false;
  };

  // `below`: paths that count begin with this.
  explicit DiskCalls(std::string below);
  DiskCalls(const DiskCalls&) = delete;
  DiskCalls& operator=(const DiskCalls&) = delete;
  ~DiskCalls();

  // The errno that a call fails with instead of being made; 0: it is made.
  std::function<int(const Call&)> fail;
  // The process ends in front of call number `end_at`, as by kill -9.
  std::size_t end_at = SIZE_MAX;

  const std::vector<Call>& calls() const { return calls_; }
  // What a power cut now could lose or tear: names and bytes that were not synced, one line each.
  std::vector<std::string> NotDurable() const;

  // For disk_calls.cc.
  int Add(Call::Kind kind, const std::string& path, const std::string& to = "");

 private:
  const std::string below_;
  std::vector<Call> calls_;
};

}  // namespace capstan::testing
