#include "server/storage/push_log.h"

#include <utility>

namespace capstan::server {

namespace {

LogResult Do(const BeginLog& work, PushLog* log) { return LogBegun{work.history, log->Begin(work.history)}; }

LogResult Do(const AppendLog& work, PushLog* log) {
  return LogAppended{work.history, work.first, log->Append(work.history, work.first, *work.records)};
}

LogResult Do(const ReadLog& work, PushLog* log) {
  LogRead result{work.generation, work.from, {}, {}};
  Result<PushLog::Piece> piece = log->Read(work.history, work.from, kLogPieceBytes);
  result.status = piece.status();
  if (piece.ok()) result.piece = std::move(piece).value();
  return result;
}

LogResult Do(const TrimLog& work, PushLog* log) { return LogTrimmed{log->Trim(work.number)}; }

}  // namespace

std::uint64_t BytesOf(const PushLogRecord& record) {
  constexpr std::uint64_t kNumbers = 128;  // bytes of a record without its payload
  const auto* push = std::get_if<PushRecord>(&record);
  if (push == nullptr) return kNumbers;
  return kNumbers + push->hyper.size() * sizeof(HyperParameters) + push->payload.size;
}

Status CheckHistory(LogHistory wanted, LogHistory here) {
  if (here.generation.value == 0) return Invalid("there is no log here");
  if (here.generation != wanted.generation) {
    return Invalid("the log is of the history that began with generation " + std::to_string(here.generation.value) +
                   ", not " + std::to_string(wanted.generation.value));
  }
  if (here.shard_count != wanted.shard_count) {
    return Invalid("the log was written by one of " + std::to_string(here.shard_count) + " shards, the job has " +
                   std::to_string(wanted.shard_count) + " now");
  }
  return {};
}

LogResult CarryOut(const LogWork& work, PushLog* log) {
  return std::visit([log](const auto& one) { return Do(one, log); }, work);
}

}  // namespace capstan::server
