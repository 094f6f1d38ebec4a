#include "tests/sim/push_log.h"

#include <algorithm>
#include <utility>

namespace capstan::sim {

using server::PushLogRecord;
using server::PushRecord;

Status SimPushLog::Begin(server::LogHistory history) {
  newest_append_ = 0;
  return MemoryPushLog::Begin(history);
}

Status SimPushLog::Append(Generation history, std::uint64_t first, const std::vector<PushLogRecord>& records) {
  if (const auto leave = std::exchange(fail_next_, std::nullopt)) {
    const auto end = records.begin() + static_cast<std::ptrdiff_t>(std::min(*leave, records.size()));
    (void)MemoryPushLog::Append(history, first, {records.begin(), end});
    return Unreachable("the disk failed");
  }
  newest_append_ = first;
  return MemoryPushLog::Append(history, first, records);
}

void SimPushLog::Crash() {
  if (flaw_ != Flaw::kLogNotDurable || newest_append_ == 0) return;
  for (std::uint64_t number = newest(); number >= newest_append_; --number) Lose(number);
}

// As if sequence numbers were not looked at in a replay: a push counts again, for the one that comes after it.
Result<server::PushLog::Piece> SimPushLog::Read(server::LogHistory history, std::uint64_t from,
                                                std::uint64_t bytes_max) {
  Result<Piece> piece = MemoryPushLog::Read(history, from, bytes_max);
  if (flaw_ != Flaw::kReplayedTwice || !piece.ok()) return piece;
  std::vector<PushLogRecord> records;
  for (PushLogRecord& record : piece->records) {
    records.push_back(record);
    if (auto* push = std::get_if<PushRecord>(&record); push != nullptr && records.size() == 1) {
      ++push->sequence;
      records.push_back(record);
    }
  }
  piece->records = std::move(records);
  return piece;
}

}  // namespace capstan::sim
