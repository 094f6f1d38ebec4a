// EncodePushRecord, DecodePushRecord: a record of a shard's log as bytes: a sealed line of JSON, then the payload.
//
// Kind:   pure functions.
// Limits: a payload of kPayloadBytesMax.
// Fails:  Decode: kCorrupt; not a byte is believed that does not match its hash. kUnsupported: of a newer format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "server/storage/push_log.h"

namespace capstan::server {

// All but the payload, which goes behind it. The number is part of the seal: a record out of place is noticed.
std::string EncodePushRecord(std::uint64_t number, const PushLogRecord& record);
// `bytes`: with the payload.
Result<PushLogRecord> DecodePushRecord(std::uint64_t number, std::string_view bytes);

// Which also states the format of the records.
std::string EncodeLogHistory(LogHistory history);
Result<LogHistory> DecodeLogHistory(std::string_view bytes);

}  // namespace capstan::server
