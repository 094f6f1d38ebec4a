// MemoryPushLog: a shard's push log in memory, for simulations and jobs within one process.
//
// Kind:   used by one thread at a time. It may outlive the shard: the shard's next incarnation finds its contents.
// Fails:  as FailWrites requests.
#pragma once

#include <map>

#include "server/storage/push_log.h"

namespace capstan::server {

class MemoryPushLog : public PushLog {
 public:
  Status Begin(LogTimeline timeline) override;
  Status Append(TimelineId timeline, std::uint64_t first, const std::vector<PushLogRecord>& records) override;
  Result<Piece> Read(LogTimeline timeline, std::uint64_t from, std::uint64_t bytes_max) override;
  Status Trim(std::uint64_t number) override;

  // From now on Begin, Append and Trim fail with `status`; an ok status ends this.
  void FailWrites(Status status) { write_failure_ = std::move(status); }
  // Removes a record, as if it had never been written.
  void Lose(std::uint64_t number) { records_.erase(number); }
  std::uint64_t size() const { return records_.size(); }
  std::uint64_t newest() const { return records_.empty() ? 0 : records_.rbegin()->first; }

 private:
  LogTimeline timeline_;
  std::uint64_t begin_ = 1;  // records before this number were trimmed
  std::map<std::uint64_t, PushLogRecord> records_;
  Status write_failure_;
};

}  // namespace capstan::server
