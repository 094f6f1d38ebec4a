// PushLog: what a shard that acknowledges durably has written down ahead of applying it: pushes and ends of slots, in
// the order in which it applies them.
//
// Kind:   opened by the process, then used by one thread (the shard's log thread). Every call blocks.
// Limits: a piece that is read holds one record more than it was asked for, at most.
// Fails:  kUnreachable: the disk is full or fails; kCorrupt: what is there is damaged, or not whole; kInvalid: it
//         is the log of another history.
// Why:    a record has all that its update depends on, so that replaying them gives the same bits; and each names its
//         slot's sequence number, so that replaying one twice does nothing.
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
  std::uint64_t sequence = 0;
  std::uint64_t samples = 0;
  float learning_rate = 0.0F;
  float loss_scale = 1.0F;
  std::uint64_t payload_hash = 0;
  Slice payload;
  std::vector<HyperParameters> hyper;  // of every group, where they came with the push
};

using EndRecord = StepReport;  // its step is the sequence number

// Numbered from 1 within a history, without a gap.
using PushLogRecord = std::variant<PushRecord, EndRecord>;

std::uint64_t BytesOf(const PushLogRecord& record);

// Whose log it is.
struct LogHistory {
  Generation generation;  // in which it began; 0: none
  std::uint32_t shard_count = 0;
  bool operator==(const LogHistory&) const = default;
};

class PushLog {
 public:
  struct Piece {
    std::vector<PushLogRecord> records;
    bool last = false;  // there are no more
  };

  virtual ~PushLog() = default;

  // An empty log of this history; every other one is gone when it returns, a damaged one too.
  virtual Status Begin(LogHistory history) = 0;
  // Durable when it returns. Takes the place of what is there from number `first` on: an append that failed may have
  // left something.
  virtual Status Append(Generation history, std::uint64_t first, const std::vector<PushLogRecord>& records) = 0;
  // Records from number `from` on, of about so many bytes. What was torn off the end when a process died is not missed;
  // whatever else is not there is kCorrupt.
  virtual Result<Piece> Read(LogHistory history, std::uint64_t from, std::uint64_t bytes_max) = 0;
  // Records in front of `number` are not needed any more; some may stay.
  virtual Status Trim(std::uint64_t number) = 0;
};

// Why a log cannot be read by those who go on with `wanted`; ok when it can.
Status CheckHistory(LogHistory wanted, LogHistory here);

// ---- what a Shard asks of its log, and what comes of it ------------------------------------------------------------

struct BeginLog {
  LogHistory history;
};
struct AppendLog {
  Generation history;
  std::uint64_t first = 0;
  std::shared_ptr<const std::vector<PushLogRecord>> records;  // the core applies them when they are there
};
struct ReadLog {
  Generation generation;  // that will begin with it
  LogHistory history;
  std::uint64_t from = 0;
};
struct TrimLog {
  std::uint64_t number = 0;
};
using LogWork = std::variant<BeginLog, AppendLog, ReadLog, TrimLog>;

struct LogBegun {
  LogHistory history;
  Status status;
};
struct LogAppended {
  Generation history;
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

LogResult CarryOut(const LogWork& work, PushLog* log);

}  // namespace capstan::server
