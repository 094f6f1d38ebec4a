// EncodeLogRecord, DecodeLogRecord, IsObsoleteLogRecord: the coordinator's records as one line of JSON each.
// EncodeLogHeader and CheckLogHeader: the line that begins a log.
//
// Kind:   pure functions.
// Limits: lists as on the wire (limits.h).
// Fails:  EncodeLogRecord: kInvalid, a text that is not UTF-8 or a record that DecodeLogRecord would refuse.
//         DecodeLogRecord: kCorrupt. CheckLogHeader: kCorrupt; kUnsupported, a newer format.
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
// Whether the record is of a kind that older builds wrote, and that says nothing any more. DecodeLogRecord refuses it.
bool IsObsoleteLogRecord(std::string_view json);

}  // namespace capstan::server
