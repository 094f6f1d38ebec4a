#include "server/coordinator/step_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "common/base/durable_file.h"
#include "common/base/rotated_file.h"

namespace capstan::server {

// Prints a step. The library writes a number in the fewest digits that read back as the same number, and a number that
// is not finite as null.
std::string StepLine(const StepRecord& record) {
  nlohmann::ordered_json line = {{"step", record.step.value},
                                 {"loss", record.loss},
                                 {"lr", record.learning_rate},
                                 {"grad_norm", record.gradient_norm},
                                 {"samples", record.samples},
                                 {"seconds", record.seconds},
                                 {"action", record.action == StepAction::kApply ? "apply" : "skip"},
                                 {"generation", record.generation.value}};
  if (record.loss_scale != 1.0) line["loss_scale"] = record.loss_scale;
  if (record.validation_loss) line["validation_loss"] = *record.validation_loss;
  if (record.validation_accuracy) line["validation_accuracy"] = *record.validation_accuracy;
  if (!record.metrics.empty()) line["metrics"] = record.metrics;
  if (record.metrics_left_out != 0) line["metrics_left_out"] = record.metrics_left_out;
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

namespace {

Result<int> OpenFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return DiskFailure("write", path, errno);
  return fd;
}

}  // namespace

Result<StepLog> StepLog::Open(std::string path, StepLogLimits limits) {
  CAPSTAN_ASSIGN_OR_RETURN(const int fd, OpenFile(path));
  StepLog log(std::move(path), limits, fd);
  CAPSTAN_RETURN_IF_ERROR(log.CutTornLine());
  return log;
}

StepLog::StepLog(StepLog&& other) noexcept
    : path_(std::move(other.path_)),
      limits_(other.limits_),
      fd_(std::exchange(other.fd_, -1)),
      unwritten_(std::move(other.unwritten_)) {}

StepLog::~StepLog() {
  if (fd_ >= 0) close(fd_);
}

Status StepLog::CutTornLine() {
  off_t end = lseek(fd_, 0, SEEK_END);
  const off_t size = end;
  std::array<char, 4096> bytes{};
  while (end > 0) {
    const off_t begin = std::max<off_t>(0, end - static_cast<off_t>(bytes.size()));
    const ssize_t got = pread(fd_, bytes.data(), static_cast<std::size_t>(end - begin), begin);
    if (got != end - begin) return Unreachable("cannot read " + path_ + ": " + std::strerror(errno));
    const std::size_t newline = std::string_view(bytes.data(), static_cast<std::size_t>(got)).rfind('\n');
    end = newline == std::string_view::npos ? begin : begin + static_cast<off_t>(newline) + 1;
    if (newline != std::string_view::npos) break;
  }
  if (end == size || ftruncate(fd_, end) == 0) return {};
  return Unreachable("cannot cut half a line off " + path_ + ": " + std::strerror(errno));
}

Status StepLog::Append(const std::vector<StepRecord>& records) {
  for (const StepRecord& record : records) unwritten_ += StepLine(record) + "\n";
  return Flush();
}

Status StepLog::Flush() {
  std::size_t done = 0;
  Status failure;
  while (done < unwritten_.size() && failure.ok()) {
    const ssize_t written = write(fd_, unwritten_.data() + done, unwritten_.size() - done);
    if (written > 0) done += static_cast<std::size_t>(written);
    if (written == 0 || (written < 0 && errno != EINTR)) failure = DiskFailure("write", path_, errno);
  }
  if (failure.ok()) {
    unwritten_.clear();
    RotateIfLarge();
    return {};
  }
  unwritten_.erase(0, unwritten_.rfind('\n', done == 0 ? 0 : done - 1) + 1);
  const Status cut = CutTornLine();  // if the cut fails too, the next Open cuts the line
  if (cut.ok() && failure.code() == Code::kBusy) return failure;
  unwritten_.clear();
  return Unreachable(failure.message());
}

// Rotates a file that has reached its size. If that fails, the file goes on growing.
void StepLog::RotateIfLarge() {
  struct stat info {};
  if (fstat(fd_, &info) != 0 || static_cast<std::uint64_t>(info.st_size) < limits_.file_bytes) return;
  const bool is_aside = access(path_.c_str(), F_OK) != 0;
  if (!is_aside && (fsync(fd_) != 0 || !RotateFile(path_, limits_.former_files).ok())) return;
  const Result<int> next = OpenFile(path_);
  if (!next.ok()) return;  // lines go into the old file until there is a new one
  close(std::exchange(fd_, *next));
}

}  // namespace capstan::server
