// EncodePushRecord, DecodePushRecord: a record of a shard's log as bytes: a sealed line of JSON, then the payload.
//
// Kind:   pure functions.
// Limits: lists and numbers as on the wire (limits.h); payloads have no limit here.
// Fails:  decoding: kCorrupt, bytes that do not match their hash or are malformed. DecodeLogTimeline: kUnsupported, a
//         newer format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "server/storage/push_log.h"

namespace capstan::server {

// Returns the record without its payload, which the caller writes behind it. The hash includes the number, so a
// misplaced record is found.
std::string EncodePushRecord(std::uint64_t number, const PushLogRecord& record);
// `bytes` include the payload.
Result<PushLogRecord> DecodePushRecord(std::uint64_t number, std::string_view bytes);

// The encoded timeline also states the format of the records.
std::string EncodeLogTimeline(LogTimeline timeline);
Result<LogTimeline> DecodeLogTimeline(std::string_view bytes);

}  // namespace capstan::server
