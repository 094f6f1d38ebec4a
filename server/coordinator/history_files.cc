#include "server/coordinator/history_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/rotated_file.h"
#include "server/coordinator/audit_log.h"
#include "server/coordinator/history.h"
#include "server/coordinator/step_log.h"

namespace capstan::server {
namespace {

constexpr std::uint64_t kPieceBytes = kHistoryLineMax;

using OnLine = std::function<void(std::string_view line)>;

// A regular file that is open for reading; of size 0 if it cannot be read.
class InputFile {
 public:
  explicit InputFile(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
    struct stat info {};
    if (fd_ >= 0 && fstat(fd_, &info) == 0 && S_ISREG(info.st_mode)) size_ = static_cast<std::uint64_t>(info.st_size);
  }
  ~InputFile() {
    if (fd_ >= 0) close(fd_);
  }
  InputFile(InputFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}
  InputFile& operator=(InputFile&&) = delete;

  std::uint64_t size() const { return size_; }
  std::string Read(std::uint64_t begin, std::uint64_t bytes) const {
    std::string text(bytes, '\0');
    const ssize_t got = pread(fd_, text.data(), text.size(), static_cast<off_t>(begin));
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return text;
  }

 private:
  int fd_;
  std::uint64_t size_ = 0;
};

// Calls `on_line` with each whole line that begins in the piece of kPieceBytes at `begin`.
void ReadPiece(const InputFile& file, std::uint64_t begin, const OnLine& on_line) {
  const std::uint64_t before = begin == 0 ? 0 : 1;  // a newline there shows that a line begins at `begin`
  const std::string text = file.Read(begin - before, before + kPieceBytes + kHistoryLineMax);
  std::size_t line = 0;
  if (before != 0) {
    const std::size_t newline = text.find('\n');
    if (newline == std::string::npos) return;
    line = newline + 1;
  }
  while (line < before + kPieceBytes) {
    const std::size_t end = text.find('\n', line);
    if (end == std::string::npos) return;
    if (end - line <= kHistoryLineMax) on_line(std::string_view(text).substr(line, end - line));
    line = end + 1;
  }
}

// Calls `on_line` with the lines of the file at `path` and of its older files, oldest first.
void ReadLines(const std::string& path, std::uint64_t bytes_max, const OnLine& on_line) {
  std::vector<std::string> names = FormerFiles(path);
  names.push_back(path);
  std::vector<InputFile> files;
  std::uint64_t bytes = 0;
  for (const std::string& name : names) bytes += files.emplace_back(name).size();
  // One piece of each `every` bytes is read.
  const std::uint64_t every = (bytes / bytes_max + 1) * kPieceBytes;
  for (const InputFile& file : files) {
    for (std::uint64_t begin = 0; begin < file.size(); begin += every) ReadPiece(file, begin, on_line);
  }
}

}  // namespace

void ReadHistory(const std::string& run_dir, History* history, std::uint64_t bytes_max) {
  ReadLines(run_dir + "/metrics.jsonl", bytes_max, [&](std::string_view line) {
    if (const std::optional<StepRecord> record = ParseStepLine(line)) history->AddStep(*record);
  });
  ReadLines(run_dir + "/audit.jsonl", bytes_max, [&](std::string_view line) {
    const std::optional<PastEntry> entry = ParseAuditLine(line);
    if (entry) history->AddEvent(entry->entry, entry->time, history->StepsAt(entry->time));
  });
}

}  // namespace capstan::server
