#include "server/coordinator/audit_log.h"

#include <nlohmann/json.hpp>
#include <algorithm>
#include <ctime>

#include "common/base/utf8.h"

namespace capstan::server {
namespace {

constexpr std::array<const char*, kAuditKinds> kAuditNames = {"joined",   "refused",          "took over", "left",
                                                              "recovery", "snapshot deleted", "lost",      "set aside",
                                                              "started",  "snapshot",         "ended"};

// Returns a time such as "2026-11-26T19:02:03Z".
std::string UtcText(std::chrono::sys_seconds time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

// Reads a time that UtcText wrote; nothing for another text.
std::optional<double> TimeOf(const std::string& text) {
  std::tm parts{};
  const char* const end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return static_cast<double>(timegm(&parts));
}

std::string AuditLine(std::chrono::sys_seconds time, std::size_t kind, const std::string& who, const char* key,
                      const nlohmann::ordered_json& value) {
  nlohmann::ordered_json line = {{"time", UtcText(time)}, {"what", kAuditNames[kind]}};
  if (!who.empty()) line["who"] = CleanUtf8(who, kAuditTextMax);
  line[key] = value;
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

std::optional<PastEntry> ParseAuditLine(std::string_view line) {
  const auto json = nlohmann::json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  const auto text_of = [&](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const std::optional<double> time = TimeOf(text_of("time"));
  const auto kind = std::find(kAuditNames.begin(), kAuditNames.end(), text_of("what"));
  if (!time || kind == kAuditNames.end() || !json.contains("text")) return std::nullopt;
  return PastEntry{*time, {static_cast<AuditKind>(kind - kAuditNames.begin()), text_of("text"), text_of("who")}};
}

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
