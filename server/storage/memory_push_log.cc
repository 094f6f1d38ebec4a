#include "server/storage/memory_push_log.h"

#include <algorithm>

namespace capstan::server {

Status MemoryPushLog::Begin(LogTimeline timeline) {
  CAPSTAN_RETURN_IF_ERROR(write_failure_);
  timeline_ = timeline;
  begin_ = 1;
  records_.clear();
  return {};
}

Status MemoryPushLog::Append(TimelineId timeline, std::uint64_t first, const std::vector<PushLogRecord>& records) {
  if (timeline != timeline_.id) return Invalid("the log is of another timeline");
  CAPSTAN_RETURN_IF_ERROR(write_failure_);
  records_.erase(records_.lower_bound(first), records_.end());
  for (const PushLogRecord& record : records) records_.emplace(first++, record);
  return {};
}

Result<PushLog::Piece> MemoryPushLog::Read(LogTimeline timeline, std::uint64_t from, std::uint64_t bytes_max) {
  CAPSTAN_RETURN_IF_ERROR(CheckTimeline(timeline, timeline_));
  if (from < begin_) return Corrupt("the log begins with record " + std::to_string(begin_));
  Piece piece;
  std::uint64_t bytes = 0;
  for (auto next = records_.lower_bound(from); next != records_.end(); ++next, ++from) {
    if (bytes >= bytes_max) return piece;
    if (next->first != from) return Corrupt("record " + std::to_string(from) + " of the log is missing");
    bytes += BytesOf(next->second);
    piece.records.push_back(next->second);
  }
  piece.last = true;
  return piece;
}

Status MemoryPushLog::Trim(std::uint64_t number) {
  CAPSTAN_RETURN_IF_ERROR(write_failure_);
  begin_ = std::max(begin_, number);
  records_.erase(records_.begin(), records_.lower_bound(number));
  return {};
}

}  // namespace capstan::server
