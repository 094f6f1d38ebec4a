#include "server/step_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
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
  if (record.validation_loss) Add(&line, "validation_loss", *record.validation_loss);
  if (record.validation_accuracy) Add(&line, "validation_accuracy", *record.validation_accuracy);
  return line + "}";
}

Result<StepLog> StepLog::Open(std::string path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return Unreachable("cannot write " + path + ": " + std::strerror(errno));
  return StepLog(std::move(path), fd);
}

StepLog::StepLog(StepLog&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

StepLog::~StepLog() {
  if (fd_ >= 0) close(fd_);
}

Status StepLog::Append(const std::vector<StepRecord>& records) {
  std::string lines;
  for (const StepRecord& record : records) lines += StepLine(record) + "\n";
  for (std::size_t done = 0; done < lines.size();) {
    const ssize_t written = write(fd_, lines.data() + done, lines.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return Unreachable("cannot write " + path_ + ": " + std::strerror(errno));
    done += static_cast<std::size_t>(written);
  }
  return {};
}

}  // namespace capstan::server
