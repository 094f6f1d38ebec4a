// The target reads the input as a coordinator's log. Either the log is refused, or its records can be printed and read
// back unchanged.
#include "server/storage/log_text.h"
#include "server/storage/sealed_text.h"
#include "tests/fuzz/target.h"

namespace capstan::fuzz {
namespace {

// Adds to each whole line the seal that it would have in a log. Bytes after the last line end stay as a torn line.
std::string SealLines(std::string_view text) {
  std::string sealed;
  std::uint64_t previous = 0;
  for (std::size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
    const std::string line = server::Seal(previous, text.substr(0, end));
    previous = *server::StatedHash(line);
    sealed += line + '\n';
  }
  return sealed.append(text);
}

void CheckLog(std::string_view text) {
  const Result<server::ParsedLog> log = server::ParseLogText("log", text);
  if (!log.ok()) return RequireReason(log.status(), "log:");
  Require(log->whole_bytes <= text.size(), "no more is read than there is");
  Require(log->begun || log->records.empty(), "records follow a first line that states the format");
  const Result<std::string> printed = server::PrintLogText(log->records);
  Require(printed.ok(), "records that are accepted can be printed");
  const Result<server::ParsedLog> again = server::ParseLogText("log", *printed);
  Require(again.ok() && again->records.size() == log->records.size(), "all records that are printed are read");
  Require(again->whole_bytes == printed->size(), "a printed log has no torn line");
  Require(server::PrintLogText(again->records).value() == *printed, "records are printed as they were read");
}

void RunCoordinatorLog(std::string_view text) {
  CheckLog(text);
  CheckLog(SealLines(text));
}

const Registered coordinator_log_target({"coordinator_log", RunCoordinatorLog});

}  // namespace
}  // namespace capstan::fuzz
