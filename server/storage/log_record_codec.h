// EncodeLogRecord, DecodeLogRecord: the coordinator's records as one line of JSON each.
//
// Kind:   pure functions.
// Limits: lists and texts as on the wire (limits.h).
// Fails:  Encode: kInvalid, a text that is not UTF-8. Decode: kCorrupt; kUnsupported (a header of a newer format).
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "server/storage/coordinator_log.h"

namespace capstan::server {

// Returns the first line of a log, which states the format.
std::string EncodeLogHeader();
Status CheckLogHeader(std::string_view json);

Result<std::string> EncodeLogRecord(const LogRecord& record);
Result<LogRecord> DecodeLogRecord(std::string_view json);

}  // namespace capstan::server
