#include "tests/sim/push_log.h"

#include <algorithm>
#include <string>
#include <utility>

#include "server/storage/push_record_codec.h"

namespace capstan::sim {

using server::PushLogRecord;
using server::PushRecord;

Status SimPushLog::Begin(server::LogTimeline timeline) {
  newest_append_ = 0;
  return MemoryPushLog::Begin(timeline);
}

Status SimPushLog::Append(TimelineId timeline, std::uint64_t first, const std::vector<PushLogRecord>& records) {
  Result<std::vector<PushLogRecord>> read = AsRead(first, records);
  if (!read.ok()) return unreadable_ = read.status();
  if (const auto leave = std::exchange(fail_next_, std::nullopt)) {
    read->resize(std::min(*leave, read->size()));
    (void)MemoryPushLog::Append(timeline, first, *read);
    return Unreachable("the disk failed");
  }
  newest_append_ = first;
  return MemoryPushLog::Append(timeline, first, *read);
}

// Returns the records as the shard would read them after a restart: encoded and decoded.
Result<std::vector<PushLogRecord>> SimPushLog::AsRead(std::uint64_t first, const std::vector<PushLogRecord>& records) {
  std::vector<PushLogRecord> read;
  for (const PushLogRecord& record : records) {
    std::string bytes = server::EncodePushRecord(first, record);
    if (const auto* push = std::get_if<PushRecord>(&record)) {
      bytes.append(reinterpret_cast<const char*>(push->payload.data), push->payload.size);
    }
    CAPSTAN_ASSIGN_OR_RETURN(PushLogRecord decoded, server::DecodePushRecord(first++, bytes));
    read.push_back(std::move(decoded));
  }
  return read;
}

void SimPushLog::Crash() {
  if (flaw_ != Flaw::kLogNotDurable || newest_append_ == 0) return;
  for (std::uint64_t number = newest(); number >= newest_append_; --number) Lose(number);
}

// With Flaw::kReplayedTwice, adds a copy of a piece's first record if it is a push, with the next sequence number. So a
// replay applies that push twice.
Result<server::PushLog::Piece> SimPushLog::Read(server::LogTimeline timeline, std::uint64_t from,
                                                std::uint64_t bytes_max) {
  Result<Piece> piece = MemoryPushLog::Read(timeline, from, bytes_max);
  if (flaw_ != Flaw::kReplayedTwice || !piece.ok()) return piece;
  std::vector<PushLogRecord> records;
  for (PushLogRecord& record : piece->records) {
    records.push_back(record);
    if (auto* push = std::get_if<PushRecord>(&record); push != nullptr && records.size() == 1) {
      ++push->sequence.value;
      records.push_back(record);
    }
  }
  piece->records = std::move(records);
  return piece;
}

}  // namespace capstan::sim
