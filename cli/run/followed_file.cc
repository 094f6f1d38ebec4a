#include "cli/run/followed_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "common/base/rotated_file.h"

namespace capstan::cli {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 16;
constexpr int kLooksMax = 5;

// Returns the file's inode; 0 if there is no such file.
std::uint64_t InodeOf(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

std::vector<std::string> PiecesOf(const std::string& path) {
  std::vector<std::string> pieces = FormerFiles(path);
  pieces.push_back(path);
  return pieces;
}

// Looks from the end of a file back for `*count` ends of lines, and counts `*count` down. Returns the offset behind the
// last one that was found, or 0.
std::uint64_t FindBack(int fd, std::uint64_t size, std::size_t* count) {
  std::array<char, kBlockBytes> bytes{};
  for (std::uint64_t end = size; end > 0;) {
    const std::uint64_t begin = end - std::min<std::uint64_t>(end, bytes.size());
    const ssize_t got = pread(fd, bytes.data(), static_cast<std::size_t>(end - begin), static_cast<off_t>(begin));
    if (got <= 0) return end;
    for (auto i = static_cast<std::size_t>(got); i > 0; --i) {
      if (bytes[i - 1] == '\n' && --*count == 0) return begin + i;
    }
    end = begin;
  }
  return 0;
}

}  // namespace

FollowedFile::~FollowedFile() {
  if (fd_ >= 0) close(fd_);
}

FollowedFile::FollowedFile(FollowedFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      inode_(std::exchange(other.inode_, 0)),
      offset_(other.offset_),
      partial_(std::move(other.partial_)) {}

bool FollowedFile::Open(const std::string& piece) {
  const int fd = open(piece.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);  // a pipe there is not waited for
  if (fd < 0) return false;
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return false;
  }
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
  inode_ = info.st_ino;
  offset_ = 0;
  return true;
}

// Opens the piece behind the one that was read, or the oldest if there is none or it is deleted. Looks again where the
// file was rotated meanwhile, because a newer piece may have got the name that was chosen. Returns false if there is no
// such piece now.
bool FollowedFile::OpenNext() {
  const std::uint64_t read = inode_;
  for (int look = 0; look < kLooksMax; ++look) {
    const std::vector<std::string> pieces = PiecesOf(path_);
    const auto same = [&](const std::string& piece) { return read != 0 && InodeOf(piece) == read; };
    auto next = std::find_if(pieces.begin(), pieces.end(), same);
    next = next == pieces.end() ? pieces.begin() : next + 1;
    if (next == pieces.end() || !Open(*next)) return false;
    if (PiecesOf(path_) == pieces) return inode_ != read;
    inode_ = read;
  }
  close(std::exchange(fd_, -1));  // the next call goes on
  return false;
}

bool FollowedFile::Read(const Take& take, std::uint64_t bytes_max) {
  if (fd_ < 0 && !OpenNext()) return false;
  for (std::uint64_t left = bytes_max;;) {
    // Only a piece that had been renamed before it was read to its end is complete.
    const std::uint64_t newest = InodeOf(path_);
    left -= std::min(left, ReadPiece(take, left));
    if (left == 0) return true;
    if (newest == 0 || newest == inode_ || !OpenNext()) return false;
  }
}

// Where the file was cut, reads on behind the last whole line if it still has that one, and else from its beginning.
void FollowedFile::NoteCut(std::uint64_t size) {
  if (size >= offset_) return;
  const std::uint64_t whole = offset_ - std::min<std::uint64_t>(offset_, partial_.size());
  offset_ = size >= whole ? whole : 0;
  partial_.clear();
}

// Returns how many bytes were read.
std::uint64_t FollowedFile::ReadPiece(const Take& take, std::uint64_t bytes_max) {
  struct stat info {};
  if (fstat(fd_, &info) == 0) NoteCut(static_cast<std::uint64_t>(info.st_size));
  std::array<char, kBlockBytes> bytes{};
  std::uint64_t done = 0;
  while (done < bytes_max) {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), bytes_max - done));
    const ssize_t got = pread(fd_, bytes.data(), size, static_cast<off_t>(offset_));
    if (got <= 0) break;
    offset_ += static_cast<std::uint64_t>(got);
    done += static_cast<std::uint64_t>(got);
    Split({bytes.data(), static_cast<std::size_t>(got)}, take);
  }
  return done;
}

void FollowedFile::Split(std::string_view bytes, const Take& take) {
  for (std::size_t end; (end = bytes.find('\n')) != bytes.npos; bytes.remove_prefix(end + 1)) {
    if (partial_.empty()) {
      take(bytes.substr(0, end));
      continue;
    }
    partial_ += bytes.substr(0, end);
    take(partial_);
    partial_.clear();
  }
  partial_ += bytes;
  if (partial_.size() < kLineBytesMax) return;
  take(partial_);
  partial_.clear();
}

void FollowedFile::SkipToLast(std::size_t count) {
  const std::vector<std::string> pieces = PiecesOf(path_);
  bool at_end = true;
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    struct stat info {};
    if (!Open(*piece) || fstat(fd_, &info) != 0) continue;
    const auto size = static_cast<std::uint64_t>(info.st_size);
    offset_ = size;
    if (count == 0) return;
    char last = 0;
    const bool ends = at_end && size > 0 && pread(fd_, &last, 1, static_cast<off_t>(size - 1)) == 1 && last == '\n';
    at_end = at_end && size == 0;
    offset_ = FindBack(fd_, ends ? size - 1 : size, &count);
    if (count == 0) return;
  }
}

}  // namespace capstan::cli
