// The target reads the input as a record of a shard's push log (a line of JSON and a payload), and as the log's
// timeline. Each is refused, or can be written and read back unchanged.
#include <algorithm>

#include "server/storage/push_record_codec.h"
#include "server/storage/sealed_text.h"
#include "tests/fuzz/target.h"

namespace capstan::fuzz {
namespace {

constexpr std::uint64_t kNumber = 1;

std::string Written(const server::PushLogRecord& record) {
  std::string bytes = server::EncodePushRecord(kNumber, record);
  if (const auto* push = std::get_if<server::PushRecord>(&record)) {
    const std::span<const std::byte> payload = push->payload.bytes();
    bytes.append(reinterpret_cast<const char*>(payload.data()), payload.size());
  }
  return bytes;
}

void CheckPushRecord(std::string_view bytes) {
  const Result<server::PushLogRecord> record = server::DecodePushRecord(kNumber, bytes);
  if (!record.ok()) return RequireReason(record.status(), "record 1 of the log");
  const std::string written = Written(*record);
  const Result<server::PushLogRecord> again = server::DecodePushRecord(kNumber, written);
  Require(again.ok(), "a record that is accepted can be written and read");
  Require(Written(*again) == written, "a record is written as it was read");
  Require(!server::DecodePushRecord(kNumber + 1, bytes).ok(), "a record out of place is noticed");
}

void CheckLogTimeline(std::string_view bytes) {
  const Result<server::LogTimeline> timeline = server::DecodeLogTimeline(bytes);
  if (!timeline.ok()) return RequireReason(timeline.status(), "log");
  const Result<server::LogTimeline> again = server::DecodeLogTimeline(server::EncodeLogTimeline(*timeline));
  Require(again.ok() && *again == *timeline, "a timeline is read as it was written");
}

void RunPushRecord(std::string_view bytes) {
  CheckPushRecord(bytes);
  CheckLogTimeline(bytes);
  const std::size_t end = std::min(bytes.find('\n'), bytes.size());
  CheckPushRecord(server::Seal(kNumber, bytes.substr(0, end)) + std::string(bytes.substr(end)));
  CheckLogTimeline(server::Seal(0, bytes));
}

const Registered push_record_target({"push_record", RunPushRecord});

}  // namespace
}  // namespace capstan::fuzz
