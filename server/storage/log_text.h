// ParseLogText, PrintLogText: a coordinator's records as the text of its log, one sealed line each (sealed_text.h).
//
// Kind:   pure functions.
// Fails:  Parse: kCorrupt, damaged before its end; kUnsupported, of a newer build. Print: kInvalid, a text is not
// UTF-8. Why:    the hash of each line goes into the next one's, so a line that is missing, changed or out of place is
// noticed.
//         Only the last line can have been cut off by the end of a process, and nobody had been told of it; a bad line
//         anywhere else is damage, which a person has to look at.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "server/storage/coordinator_log.h"

namespace capstan::server {

struct ParsedLog {
  std::vector<LogRecord> records;
  std::uint64_t last_hash = 0;  // of the last whole line; goes into the next one's
  bool begun = false;           // the first line, which states the format, is there
  std::size_t whole_bytes = 0;  // behind them a line is torn
};

// `path`: for messages.
Result<ParsedLog> ParseLogText(const std::string& path, std::string_view text);

Result<std::string> PrintLogText(const std::vector<LogRecord>& records);

}  // namespace capstan::server
