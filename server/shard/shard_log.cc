// How a shard acknowledges durably: an admitted push is first appended to the log, in groups, and then applied.
#include <algorithm>

#include "common/data/encoding.h"
#include "common/wire/messages/staged.h"
#include "server/shard/admission.h"
#include "server/shard/shard.h"
#include "server/shard/snapshot_load.h"

namespace capstan::server {

void Shard::Log(PeerId from, PushLogRecord record, Outbox* out) {
  if (log_queue_.Full(BytesOf(record))) {
    context_.metrics->pushes_busy.Add(1);
    return context_.Refuse(from, Code::kBusy, "the log of this shard is behind", out);
  }
  log_queue_.Add(from, std::move(record));
}

void Shard::StartAppend(Instant now) {
  std::shared_ptr<const std::vector<PushLogRecord>> records = log_queue_.BeginAppend();
  if (records == nullptr) return;
  append_since_ = now;
  log_work_.push_back(AppendLog{context_.timeline, next_record_, std::move(records)});
}

void Shard::TakeFailedAppend(const Status& status, Outbox* out) {
  context_.metrics->log_failures.Add(1);
  std::vector<PeerId> senders = log_queue_.Forget();
  const std::string why = "cannot write to its log: " + status.message();
  out->Say(Severity::kError, context_.name() + " " + why + "; " + std::to_string(senders.size()) +
                                 " records are not acknowledged, and will be sent again");
  std::sort(senders.begin(), senders.end());
  senders.erase(std::unique(senders.begin(), senders.end()), senders.end());
  for (const PeerId sender : senders) {
    if (sender.value != 0) context_.Refuse(sender, Code::kBusy, "this shard " + why, out);
  }
}

void Shard::On(LogAppended result, Instant now, Outbox* out) {
  const bool ours = result.history == context_.timeline && result.first == next_record_ && log_queue_.appending();
  if (!ours) return;  // belongs to a timeline that has ended
  if (!result.status.ok()) return TakeFailedAppend(result.status, out);
  context_.metrics->log_append_seconds.Observe(std::chrono::duration<double>(now - append_since_).count());
  const LogQueue::Appended appended = log_queue_.FinishAppend();
  for (std::size_t i = 0; i < appended.records->size(); ++i) {
    const PushLogRecord& record = (*appended.records)[i];
    const PeerId sender = appended.senders[i];
    context_.metrics->log_bytes.Add(BytesOf(record));
    if (const auto* push = std::get_if<PushRecord>(&record)) {
      ApplyPush(*push);
      if (sender.value != 0)
        acknowledgements_.AddPush(sender, Step{push->sequence}, push->block, {push->slot, push->slot + 1});
    } else {
      const auto& end = std::get<EndRecord>(record);
      ApplyEnd(end);
      if (sender.value != 0) acknowledgements_.For(sender, end.step).ended.push_back(end.report.slot);
    }
  }
  next_record_ += appended.records->size();
  context_.metrics->log_records.Add(appended.records->size());
}

// ---- beginning a log, and replaying it -----------------------------------------------------------------------------

void Shard::BeginHistory(Instant now) {
  log_begin_failed_ = false;
  log_backoff_.Sent(now);
  log_work_.push_back(BeginLog{OwnHistory()});
}

void Shard::On(LogBegun result, Instant now, Outbox* out) {
  if (result.history != OwnHistory() || log_ready_) return;
  if (!result.status.ok()) {
    log_begin_failed_ = true;
    out->Say(Severity::kError,
             context_.name() + " cannot begin its log: " + result.status.message() + "; it tries again");
    return;
  }
  log_ready_ = true;
  log_backoff_.Restart();
  FinishReset(now, out);
}

// A snapshot of this timeline records how much of the log it contains. The snapshot that the timeline began with
// contains none of it.
Status Shard::BeginReplay(const SnapshotLoad& load) {
  if (!context_.durable() || context_.timeline == context_.generation) return {};
  if (load.reset().snapshot.generation >= context_.timeline) {
    const std::vector<SnapshotHeader>& headers = load.headers();
    const bool knows = headers.size() == context_.options.shard_count && headers[context_.options.shard].log_begin != 0;
    if (!knows) return Invalid("the snapshot does not say where the log of this shard goes on");
    next_record_ = headers[context_.options.shard].log_begin;
  }
  log_work_.push_back(ReadLog{context_.generation, OwnHistory(), next_record_});
  return {};
}

void Shard::On(LogRead result, Instant now, Outbox* out) {
  if (!load_ || !loaded_ || log_ready_ || result.generation != context_.generation || result.from != next_record_)
    return;
  Status status = std::move(result.status);
  for (const PushLogRecord& record : result.piece.records) {
    if (status.ok()) status = ReplayRecord(record);
  }
  if (!status.ok()) return FailReset(status.message(), out);
  next_record_ += result.piece.records.size();
  context_.metrics->log_replayed.Add(result.piece.records.size());
  if (!result.piece.last) {
    log_work_.push_back(ReadLog{context_.generation, OwnHistory(), next_record_});
    return;
  }
  log_ready_ = true;
  out->Say(Severity::kInfo,
           context_.name() + " goes on after record " + std::to_string(logged_records()) + " of its log");
  FinishReset(now, out);
}

Status Shard::CheckReplay(const PushRecord& push) const {
  const auto local = context_.local_of.find(push.block);
  const bool fits =
      local != context_.local_of.end() && push.slot < context_.slot_count &&
      push.payload.size == (push.samples == 0 ? 0
                                              : context_.store->count(local->second) *
                                                    BytesPerNumber(context_.store->encoding(local->second)));
  if (fits && push.hyper.size() != context_.catalog->group_count()) {
    return Corrupt("a record of the log has hyper-parameters of " + std::to_string(push.hyper.size()) +
                   " groups, the job's tensors are of " + std::to_string(context_.catalog->group_count()));
  }
  if (fits) return {};
  return Corrupt("a record of the log is of block " + std::to_string(push.block) + " and slot " +
                 std::to_string(push.slot) + ", which do not belong here");
}

// Skips records that are already applied.
Status Shard::ReplayRecord(const PushLogRecord& record) {
  const auto* push = std::get_if<PushRecord>(&record);
  const auto* end = std::get_if<EndRecord>(&record);
  if (push != nullptr) CAPSTAN_RETURN_IF_ERROR(CheckReplay(*push));
  if (end != nullptr && (end->report.slot >= context_.slot_count ||
                         end->report.slot % context_.options.shard_count != context_.options.shard)) {
    return Corrupt("a record of the log is of slot " + std::to_string(end->report.slot) + ", which does not end here");
  }
  const std::uint64_t last =
      push != nullptr ? progress_[context_.local_of[push->block]].last[push->slot] : ended_[end->report.slot];
  const std::uint64_t sequence = push != nullptr ? push->sequence : end->step.value;
  if (sequence <= last) return {};
  if (sequence > last + 1) {
    return Corrupt("a record of the log has sequence number " + std::to_string(sequence) + " after " +
                   std::to_string(last));
  }
  if (push != nullptr) {
    ApplyPush(*push);
  } else {
    ApplyEnd(*end);
  }
  return {};
}

// ---- trimming the log ----------------------------------------------------------------------------------------------

// The newest snapshot contains all records before its `log_begin`, so those can go.
void Shard::TrimLogTo(const std::vector<SnapshotId>& kept) {
  if (kept.empty()) return;
  const auto begin = log_begins_.find(kept.back());
  if (begin == log_begins_.end()) return;
  log_work_.push_back(TrimLog{begin->second});
  log_begins_.erase(log_begins_.begin(), std::next(begin));
}

void Shard::On(LogTrimmed result, Instant, Outbox* out) {
  if (result.status.ok()) return;
  out->Say(Severity::kWarning, context_.name() + " cannot shorten its log: " + result.status.message());
}

void Shard::Handle(LogResult result, Instant now, Outbox* out) {
  std::visit([&](auto& body) { On(std::move(body), now, out); }, result);
}

}  // namespace capstan::server
