#include "server/storage/push_log.h"

#include <utility>

namespace capstan::server {

namespace {

LogResult Do(const BeginLog& work, PushLog* log) { return LogBegun{work.timeline, log->Begin(work.timeline)}; }

LogResult Do(const AppendLog& work, PushLog* log) {
  return LogAppended{work.timeline, work.first, log->Append(work.timeline, work.first, *work.records)};
}

LogResult Do(const ReadLog& work, PushLog* log) {
  LogRead result{work.generation, work.from, {}, {}};
  Result<PushLog::Piece> piece = log->Read(work.timeline, work.from, kLogPieceBytes);
  result.status = piece.status();
  if (piece.ok()) result.piece = std::move(piece).value();
  return result;
}

LogResult Do(const TrimLog& work, PushLog* log) { return LogTrimmed{log->Trim(work.number)}; }

}  // namespace

std::uint64_t BytesOf(const PushLogRecord& record) {
  constexpr std::uint64_t kNumbers = 128;  // rough size in bytes of a record's other fields
  const auto* push = std::get_if<PushRecord>(&record);
  if (push == nullptr) return kNumbers;
  return kNumbers + push->hyper.size() * sizeof(HyperParameters) + push->payload.size;
}

Status CheckTimeline(LogTimeline wanted, LogTimeline here) {
  if (here.id.value == 0) return Invalid("there is no log here");
  if (here.id != wanted.id) {
    return Invalid("the log is of the timeline that began with generation " + std::to_string(here.id.value) + ", not " +
                   std::to_string(wanted.id.value));
  }
  if (here.shard_count != wanted.shard_count) {
    return Invalid("the log was written by one of " + std::to_string(here.shard_count) + " shards, the job has " +
                   std::to_string(wanted.shard_count) + " now");
  }
  return {};
}

LogResult Execute(const LogWork& work, PushLog* log) {
  return std::visit([log](const auto& one) { return Do(one, log); }, work);
}

}  // namespace capstan::server
