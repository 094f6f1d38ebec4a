// PushLog: the write-ahead log of a shard with durable acknowledgements: pushes and ends of slots, in the order in
// which the shard applies them.
//
// Kind:   opened by the process, then used by one thread (the shard's log thread). Every call blocks.
// Limits: a piece exceeds the requested number of bytes by at most one record.
// Fails:  kBusy: the disk is full; kUnreachable: the disk fails; kCorrupt: the log is damaged or incomplete; kInvalid:
//         it is the log of another timeline.
// Why:    a record has everything that its update depends on, so a replay gives the same bits. A record also has the
//         sequence number of its slot, so replaying the record twice has no further effect.
#pragma once

#include <capstan/hyper_parameters.h>

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "common/base/buffer.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/wire/messages/slot_report.h"

namespace capstan::server {

struct PushRecord {
  BlockIndex block = 0;
  SlotIndex slot = 0;
  SequenceNumber sequence;
  std::uint64_t samples = 0;
  float learning_rate = 0.0F;
  float loss_scale = 1.0F;
  std::uint64_t payload_hash = 0;
  Slice payload;
  std::vector<HyperParameters> hyper;  // hyper-parameters of every group, if the push had them
};

using EndRecord = StepReport;

// Records are numbered from 1 within a timeline, without gaps.
using PushLogRecord = std::variant<PushRecord, EndRecord>;

std::uint64_t BytesOf(const PushLogRecord& record);

// The timeline that a log belongs to.
struct LogTimeline {
  TimelineId id;  // 0: none
  std::uint32_t shard_count = 0;
  bool operator==(const LogTimeline&) const = default;
};

class PushLog {
 public:
  struct Piece {
    std::vector<PushLogRecord> records;
    bool last = false;  // no records follow
  };

  virtual ~PushLog() = default;

  // Makes an empty log of this timeline. If it succeeds, any earlier log is deleted, even a damaged one.
  virtual Status Begin(LogTimeline timeline) = 0;
  // Appends records, durably when it returns. Replaces any records from number `first` on, which a failed append may
  // have left.
  virtual Status Append(TimelineId timeline, std::uint64_t first, const std::vector<PushLogRecord>& records) = 0;
  // Returns records from number `from` on, about `bytes_max` bytes. A tail that was cut off when a process died is not
  // an error; any other missing record is kCorrupt.
  virtual Result<Piece> Read(LogTimeline timeline, std::uint64_t from, std::uint64_t bytes_max) = 0;
  // Drops records before `number`, perhaps not all of them.
  virtual Status Trim(std::uint64_t number) = 0;
};

// Returns ok if a log of timeline `here` can be used for timeline `wanted`, and otherwise why not.
Status CheckTimeline(LogTimeline wanted, LogTimeline here);

// ---- requests of a Shard to its log, and their results ------------------------------------------------------------

struct BeginLog {
  LogTimeline timeline;
};
struct AppendLog {
  TimelineId timeline;
  std::uint64_t first = 0;
  std::shared_ptr<const std::vector<PushLogRecord>> records;  // the core applies them once they are durable
};
struct ReadLog {
  Generation generation;  // the generation that will begin with the log's contents
  LogTimeline timeline;
  std::uint64_t from = 0;
};
struct TrimLog {
  std::uint64_t number = 0;
};
using LogWork = std::variant<BeginLog, AppendLog, ReadLog, TrimLog>;

struct LogBegun {
  LogTimeline timeline;
  Status status;
};
struct LogAppended {
  TimelineId timeline;
  std::uint64_t first = 0;
  Status status;
};
struct LogRead {
  Generation generation;
  std::uint64_t from = 0;
  Status status;
  PushLog::Piece piece;
};
struct LogTrimmed {
  Status status;
};
using LogResult = std::variant<LogBegun, LogAppended, LogRead, LogTrimmed>;

inline constexpr std::uint64_t kLogPieceBytes = std::uint64_t{16} << 20;

LogResult Execute(const LogWork& work, PushLog* log);

}  // namespace capstan::server
