// SimPushLog: a shard's log in a simulated cluster. It outlives the shard, and fails as told.
//
// Kind:   owned by the disk that it lies on.
// Why:    what an append had not finished when its shard died is there in part or not at all; one that failed may have
//         left something; a flawed log loses or repeats what it promised.
#pragma once

#include <optional>
#include <vector>

#include "common/base/random.h"
#include "server/storage/memory_push_log.h"
#include "tests/sim/mutants.h"

namespace capstan::sim {

class SimPushLog : public server::MemoryPushLog {
 public:
  Status Begin(server::LogHistory history) override;
  Status Append(Generation history, std::uint64_t first, const std::vector<server::PushLogRecord>& records) override;
  Result<Piece> Read(server::LogHistory history, std::uint64_t from, std::uint64_t bytes_max) override;

  void set_flaw(Flaw flaw) { flaw_ = flaw; }
  // The next append fails, and leaves so many of its records behind.
  void FailNext(std::size_t leave) { fail_next_ = leave; }
  // Its shard dies.
  void Crash();
  // Why a record that was appended cannot be read; ok: all can.
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
