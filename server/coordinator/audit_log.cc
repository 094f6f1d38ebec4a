#include "server/coordinator/audit_log.h"

#include <nlohmann/json.hpp>
#include <ctime>

#include "common/base/utf8.h"

namespace capstan::server {
namespace {

constexpr std::array<const char*, kAuditKinds> kAuditNames = {"joined", "refused",  "took over",
                                                              "left",   "recovery", "snapshot deleted"};

// Returns a time such as "2026-11-26T19:02:03Z".
std::string UtcText(std::chrono::sys_seconds time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::string AuditLine(std::chrono::sys_seconds time, std::size_t kind, const std::string& who, const char* key,
                      const nlohmann::ordered_json& value) {
  nlohmann::ordered_json line = {{"time", UtcText(time)}, {"what", kAuditNames[kind]}};
  if (!who.empty()) line["who"] = CleanUtf8(who, kAuditTextMax);
  line[key] = value;
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

Result<AuditLog> AuditLog::Open(std::string path, LineFileLimits limits) {
  CAPSTAN_ASSIGN_OR_RETURN(LineFile file, LineFile::Open(std::move(path), 0600, limits));
  return AuditLog(std::move(file));
}

Status AuditLog::Append(const std::vector<AuditEntry>& entries, WallTime now) {
  const auto second = std::chrono::floor<std::chrono::seconds>(now);
  std::string lines;
  if (second != second_) {
    lines = LinesLeftOut();
    second_ = second;
  }
  for (const AuditEntry& entry : entries) {
    const auto kind = static_cast<std::size_t>(entry.kind);
    if (++counts_[kind] <= kLinesPerSecond)
      lines += AuditLine(second, kind, entry.who, "text", CleanUtf8(entry.text, kAuditTextMax));
  }
  return Write(lines);
}

Status AuditLog::End() { return Write(LinesLeftOut()); }

// Returns the lines for what was left out since the second began, and counts from 0 again.
std::string AuditLog::LinesLeftOut() {
  std::string lines;
  for (std::size_t kind = 0; kind < counts_.size(); ++kind) {
    const std::uint64_t count = std::exchange(counts_[kind], 0);
    if (count > kLinesPerSecond) lines += AuditLine(second_, kind, "", "left_out", count - kLinesPerSecond);
  }
  return lines;
}

Status AuditLog::Write(const std::string& lines) {
  if (lines.empty()) return {};
  Status status = file_.Append(lines);
  if (!status.ok()) file_.Drop();
  return status;
}

}  // namespace capstan::server
