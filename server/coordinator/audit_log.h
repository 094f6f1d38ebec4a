// AuditLog: audit.jsonl: who joined a job, was refused, took over or left, what was recovered and why, and which
// snapshots were deleted.
//
// Kind:   owned by one thread.
// Limits: kLinesPerSecond lines of a kind in a second; what is beyond is counted in one more line. A text has
//         kAuditTextMax bytes. Those of LineFile; 16 MiB a file, 7 former ones.
// Fails:  as LineFile; lines that could not be written are given up, because a job must not wait for them.
// Why:    the terminal and the logs tell the user how the job goes, and are rotated with much else. This file answers
//         later who did what. A process that floods the coordinator with attempts does not fill the disk.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/wire/actor.h"
#include "server/coordinator/line_file.h"

namespace capstan::server {

inline constexpr std::size_t kAuditTextMax = 1000;
inline constexpr LineFileLimits kAuditFiles{.file_bytes = std::uint64_t{16} << 20, .former_files = 7};

// An entry of the file, and its time in seconds of Unix time.
struct PastEntry {
  double time = 0.0;
  AuditEntry entry;
};
// Reads a line of the file; nothing for another text, and for one that only counts what was left out.
std::optional<PastEntry> ParseAuditLine(std::string_view line);

class AuditLog {
 public:
  using WallTime = std::chrono::system_clock::time_point;
  static constexpr std::uint64_t kLinesPerSecond = 16;

  // Opens the file, which only its owner may read, to append after its last whole line.
  static Result<AuditLog> Open(std::string path, LineFileLimits limits = kAuditFiles);

  // Appends what happened at `now`. Call it also when nothing did: it then writes what an earlier second left out.
  Status Append(const std::vector<AuditEntry>& entries, WallTime now);
  // Writes what the present second has left out. Call it last.
  Status End();

 private:
  explicit AuditLog(LineFile file) : file_(std::move(file)) {}
  std::string LinesLeftOut();
  Status Write(const std::string& lines);

  LineFile file_;
  std::chrono::sys_seconds second_{};                // that `counts_` are of
  std::array<std::uint64_t, kAuditKinds> counts_{};  // entries of each kind in that second
};

}  // namespace capstan::server
