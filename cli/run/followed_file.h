// FollowedFile: reads the lines of a file that grows and is rotated (rotated_file.h), from its oldest piece on.
//
// Kind:   owned by one thread. The piece that is being read stays open, so that its renaming and deletion lose no line.
// Limits: kLineBytesMax: a longer line is cut into several. A call reads about as many bytes as it is told to.
// Fails:  never; a file that does not exist yet, or is no regular file, has no lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

namespace capstan::cli {

class FollowedFile {
 public:
  static constexpr std::size_t kLineBytesMax = std::size_t{1} << 20;
  static constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();
  using Take = std::function<void(std::string_view line)>;

  explicit FollowedFile(std::string path) : path_(std::move(path)) {}
  ~FollowedFile();
  FollowedFile(FollowedFile&& other) noexcept;
  FollowedFile& operator=(FollowedFile&&) = delete;

  // Calls `take` with each line, without its end, that is complete and was not read yet. Returns false if the end was
  // reached, and true if the call stopped after about `bytes_max` bytes.
  bool Read(const Take& take, std::uint64_t bytes_max = kAll);
  // Makes Read begin with the last `count` lines that the file has now, or with all if there are fewer. To be called
  // before Read.
  void SkipToLast(std::size_t count);
  // Returns what is there of a line that is not complete.
  const std::string& rest() const { return partial_; }

 private:
  bool Open(const std::string& piece);
  bool OpenNext();
  std::uint64_t ReadPiece(const Take& take, std::uint64_t bytes_max);
  void NoteCut(std::uint64_t size);
  void Split(std::string_view bytes, const Take& take);

  std::string path_;
  int fd_ = -1;               // the piece that is being read; negative: none yet
  std::uint64_t inode_ = 0;   // of that piece; 0: none yet
  std::uint64_t offset_ = 0;  // bytes of that piece read so far
  std::string partial_;
};

}  // namespace capstan::cli
