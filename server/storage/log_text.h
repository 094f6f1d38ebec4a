// ParseLogText, PrintLogText: the coordinator's records as the text of its log, one sealed line each (sealed_text.h).
//
// Kind:   pure functions.
// Fails:  Parse: kCorrupt (damaged before its end), kUnsupported (a newer build's). Print: kInvalid (a text
//         is not UTF-8).
// Why:    each line's hash includes the previous line's, so a missing, changed or misplaced line is found. The end of a
//         process can cut off only the last line, which no other process has relied on. A bad line anywhere else is
//         damage, which a person must look at.
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
  std::uint64_t last_hash = 0;  // hash of the last whole line; part of the next line's hash
  bool begun = false;           // whether the first line, which states the format, is there
  std::size_t whole_bytes = 0;  // size of the whole lines; an incomplete line may follow
};

// `path` appears in messages.
Result<ParsedLog> ParseLogText(const std::string& path, std::string_view text);

Result<std::string> PrintLogText(const std::vector<LogRecord>& records);

}  // namespace capstan::server
