#include "server/storage/log_text.h"

#include "server/storage/log_record_codec.h"
#include "server/storage/sealed_text.h"

namespace capstan::server {

namespace {

bool LooksLikeRecord(std::string_view line) {
  return StatedHash(line) && line.size() > kSealBytes + 1 && line[kSealBytes] == '{' && line.back() == '}';
}

// Whether any complete line of `text` looks like a record.
bool HasRecord(std::string_view text) {
  while (true) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return false;
    if (LooksLikeRecord(text.substr(0, end))) return true;
    text.remove_prefix(end + 1);
  }
}

// Ok if the text is a torn first line or empty. Any other text is another file, which must not be changed.
Status JudgeFirstLine(const std::string& where, std::string_view text) {
  if ((Seal(0, EncodeLogHeader()) + '\n').starts_with(text)) return {};
  return Corrupt(where +
                 ": this is no coordinator's log, or not what was written: put back a copy, or move the file away");
}

// Ok if the bad line at the start of `text` is a torn tail.
Status JudgeBadLine(const std::string& where, std::uint64_t previous, std::string_view text) {
  const std::size_t end = text.find('\n');
  const bool followed = end != std::string_view::npos && HasRecord(text.substr(end + 1));
  const bool damaged_end = BeginsWithSealed(previous, text.substr(0, end), '}');  // behind a whole record
  if (!followed && !damaged_end) return {};
  return Corrupt(
      where +
      ": this line is not what was written, and it is not the end of the log; the disk has damaged it or "
      "somebody has edited it: put back a copy, or move the run directory away and start the job from its beginning");
}

// Decodes a line whose hash is right: the first line of the log, or a record, which is added to `log` unless it is
// obsolete.
Status TakeLine(const std::string& where, std::string_view line, ParsedLog* log) {
  const std::string_view json = line.substr(kSealBytes);
  Status status;
  if (log->begun && !IsObsoleteLogRecord(json)) {
    Result<LogRecord> record = DecodeLogRecord(json);
    status = record.status();
    if (record.ok()) log->records.push_back(std::move(record).value());
  } else if (!log->begun) {
    status = CheckLogHeader(json);
  }
  if (!status.ok()) return {status.code(), where + ": " + status.message()};
  log->begun = true;
  log->last_hash = *StatedHash(line);
  return {};
}

}  // namespace

Result<ParsedLog> ParseLogText(const std::string& path, std::string_view text) {
  ParsedLog log;
  for (std::uint64_t number = 1; log.whole_bytes < text.size(); ++number) {
    const std::string where = path + ":" + std::to_string(number);
    const std::size_t end = text.find('\n', log.whole_bytes);
    const std::string_view line = text.substr(log.whole_bytes, end - log.whole_bytes);
    if (end == std::string_view::npos || !Unseal(log.last_hash, line)) {
      const std::string_view rest = text.substr(log.whole_bytes);
      CAPSTAN_RETURN_IF_ERROR(log.begun ? JudgeBadLine(where, log.last_hash, rest) : JudgeFirstLine(where, rest));
      return log;
    }
    CAPSTAN_RETURN_IF_ERROR(TakeLine(where, line, &log));
    log.whole_bytes = end + 1;
  }
  return log;
}

Result<std::string> PrintLogText(const std::vector<LogRecord>& records) {
  std::string line = Seal(0, EncodeLogHeader());
  std::string text = line + '\n';
  for (const LogRecord& record : records) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::string json, EncodeLogRecord(record));
    line = Seal(*StatedHash(line), json);
    text += line + '\n';
  }
  return text;
}

}  // namespace capstan::server
