// SimPushLog: a shard's log in a simulated cluster. It outlives the shard, and fails on request.
//
// Kind:   owned by a SimDisk.
// Why:    an append that was unfinished when its shard died is on disk wholly, in part or not at all; a failed append
//         may have left something; a flawed log loses or repeats records.
#pragma once

#include <optional>
#include <vector>

#include "common/base/random.h"
#include "server/storage/memory_push_log.h"
#include "tests/sim/mutants.h"

namespace capstan::sim {

class SimPushLog : public server::MemoryPushLog {
 public:
  Status Begin(server::LogTimeline timeline) override;
  Status Append(TimelineId timeline, std::uint64_t first, const std::vector<server::PushLogRecord>& records) override;
  Result<Piece> Read(server::LogTimeline timeline, std::uint64_t from, std::uint64_t bytes_max) override;

  void set_flaw(Flaw flaw) { flaw_ = flaw; }
  // Makes the next append fail and leave its first `leave` records on disk.
  void FailNext(std::size_t leave) { fail_next_ = leave; }
  // Call it when the shard dies.
  void Crash();
  // Why an appended record could not be read again; ok if all records could.
  const Status& unreadable() const { return unreadable_; }

 private:
  Result<std::vector<server::PushLogRecord>> AsRead(std::uint64_t first,
                                                    const std::vector<server::PushLogRecord>& records);

  Status unreadable_;
  Flaw flaw_ = Flaw::kNone;
  std::optional<std::size_t> fail_next_;
  std::uint64_t newest_append_ = 0;  // its first record
};

}  // namespace capstan::sim
