// EventFile: a file of event records in RUN_DIR/tensorboard.
//
// Kind:   owned by one thread.
// Limits: the folder has at most kEventFilesMax such files; the oldest are deleted.
// Fails:  kBusy: the disk is full; kUnreachable: the file cannot be written. A record is written whole or not at all.
// Why:    each start of a coordinator writes a new file, whose name sorts behind all others: TensorBoard reads the
//         files in the order of their names, and never goes back to one that it has left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace capstan::server {

inline constexpr std::size_t kEventFilesMax = 100;

class EventFile {
 public:
  // Makes the folder, whose parent must exist, and a new file in it. `seconds`: the time of day, since 1970, which the
  // name is made from.
  static Result<EventFile> Create(const std::string& folder, std::uint64_t seconds);
  ~EventFile();  // removes a file that is empty
  EventFile(EventFile&& other) noexcept;
  EventFile& operator=(EventFile&&) = delete;

  const std::string& path() const { return path_; }
  bool is_empty() const { return size_ == 0; }
  // `records`: whole ones.
  Status Append(std::string_view records);

 private:
  EventFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_;
  std::uint64_t size_ = 0;  // bytes of whole records
};

}  // namespace capstan::server
