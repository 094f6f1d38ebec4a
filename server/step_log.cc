#include "server/step_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

namespace capstan::server {

std::string JsonNumber(double value) {
  if (!std::isfinite(value)) return "null";
  std::array<char, 64> digits{};
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr};
}

namespace {

void Add(std::string* line, const char* name, double value) {
  *line += std::string(", \"") + name + "\": " + JsonNumber(value);
}

void Add(std::string* line, const char* name, std::uint64_t value) {
  *line += std::string(", \"") + name + "\": " + std::to_string(value);
}

}  // namespace

std::string StepLine(const StepRecord& record) {
  std::string line = "{\"step\": " + std::to_string(record.step.value);
  Add(&line, "loss", record.loss);
  Add(&line, "lr", record.learning_rate);
  Add(&line, "grad_norm", record.gradient_norm);
  Add(&line, "samples", record.samples);
  Add(&line, "seconds", record.seconds);
  line += std::string(", \"action\": ") + (record.action == StepAction::kApply ? "\"apply\"" : "\"skip\"");
  Add(&line, "generation", record.generation.value);
  if (record.loss_scale != 1.0) Add(&line, "loss_scale", record.loss_scale);
  if (record.validation_loss) Add(&line, "validation_loss", *record.validation_loss);
  if (record.validation_accuracy) Add(&line, "validation_accuracy", *record.validation_accuracy);
  const char* before = ", \"metrics\": {";
  for (const auto& [name, value] : record.metrics) {
    line += before + ("\"" + name + "\": ") + JsonNumber(value);
    before = ", ";
  }
  return line + (record.metrics.empty() ? "}" : "}}");
}

Result<StepLog> StepLog::Open(std::string path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return Unreachable("cannot write " + path + ": " + std::strerror(errno));
  StepLog log(std::move(path), fd);
  CAPSTAN_RETURN_IF_ERROR(log.CutTornLine());
  return log;
}

StepLog::StepLog(StepLog&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

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
  std::string lines;
  for (const StepRecord& record : records) lines += StepLine(record) + "\n";
  for (std::size_t done = 0; done < lines.size();) {
    const ssize_t written = write(fd_, lines.data() + done, lines.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      Status failure = Unreachable("cannot write " + path_ + ": " + std::strerror(errno));
      (void)CutTornLine().ok();  // if that fails too, the next start does it
      return failure;
    }
    done += static_cast<std::size_t>(written);
  }
  return {};
}

}  // namespace capstan::server
