// LineFile: a file that grows by whole lines and is rotated.
//
// Kind:   owned by one thread.
// Limits: LineFileLimits; older lines are deleted (rotated_file.h).
// Fails:  kBusy: the disk is full, and Flush may succeed later; kUnreachable: the file cannot be written. Lines that
//         were written whole stay.
// Why:    lines are appended whole, so a reader that follows the file sees whole lines. An incomplete line that a full
//         disk or a crash left is cut off; otherwise the next line would be damaged.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace capstan::server {

struct LineFileLimits {
  std::uint64_t file_bytes = std::uint64_t{64} << 20;  // a file of this size is rotated
  std::size_t former_files = 7;
};

class LineFile {
 public:
  // Opens the file to append after its last whole line. `mode`: the most permissions that the file has.
  static Result<LineFile> Open(std::string path, mode_t mode, LineFileLimits limits);
  ~LineFile();
  LineFile(LineFile&& other) noexcept;
  LineFile& operator=(LineFile&&) = delete;

  const std::string& path() const { return path_; }
  // `lines`: each with its newline.
  Status Append(std::string_view lines);
  // Writes the lines that a failed Append has left.
  Status Flush();
  // Gives up the lines that a failed Append has left.
  void Drop() { unwritten_.clear(); }

 private:
  LineFile(std::string path, mode_t mode, LineFileLimits limits, int fd)
      : path_(std::move(path)), mode_(mode), limits_(limits), fd_(fd) {}
  // Cuts off everything after the last whole line.
  Status CutTornLine();
  void RotateIfLarge();

  std::string path_;
  mode_t mode_;
  LineFileLimits limits_;
  int fd_;
  std::string unwritten_;  // whole lines that are not written yet
};

}  // namespace capstan::server
