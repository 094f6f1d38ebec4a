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
    metrics_->pushes_busy.Add(1);
    return Refuse(from, Code::kBusy, "the log of this shard is behind", out);
  }
  log_queue_.Add(from, std::move(record));
}

void Shard::StartAppend(Instant now) {
  std::shared_ptr<const std::vector<PushLogRecord>> records = log_queue_.BeginAppend();
  if (records == nullptr) return;
  append_since_ = now;
  log_work_.push_back(AppendLog{history_, next_record_, std::move(records)});
}

void Shard::TakeFailedAppend(const Status& status, Outbox* out) {
  metrics_->log_failures.Add(1);
  std::vector<PeerId> senders = log_queue_.Forget();
  const std::string why = "cannot write to its log: " + status.message();
  out->Say(Severity::kError, "shard " + std::to_string(options_.shard) + " " + why + "; " +
                                 std::to_string(senders.size()) +
                                 " records are not acknowledged, and will be sent again");
  std::sort(senders.begin(), senders.end());
  senders.erase(std::unique(senders.begin(), senders.end()), senders.end());
  for (const PeerId sender : senders) {
    if (sender.value != 0) Refuse(sender, Code::kBusy, "this shard " + why, out);
  }
}

void Shard::On(LogAppended result, Instant now, Outbox* out) {
  const bool ours = result.history == history_ && result.first == next_record_ && log_queue_.appending();
  if (!ours) return;  // belongs to a timeline that has ended
  if (!result.status.ok()) return TakeFailedAppend(result.status, out);
  metrics_->log_append_seconds.Observe(std::chrono::duration<double>(now - append_since_).count());
  const LogQueue::Appended appended = log_queue_.FinishAppend();
  for (std::size_t i = 0; i < appended.records->size(); ++i) {
    const PushLogRecord& record = (*appended.records)[i];
    const PeerId sender = appended.senders[i];
    metrics_->log_bytes.Add(BytesOf(record));
    if (const auto* push = std::get_if<PushRecord>(&record)) {
      ApplyPush(*push);
      if (sender.value != 0) Acknowledge(sender, Step{push->sequence}, push->block, {push->slot, push->slot + 1});
    } else {
      const auto& end = std::get<EndRecord>(record);
      ApplyEnd(end);
      if (sender.value != 0) AckFor(sender, end.step).ended.push_back(end.report.slot);
    }
  }
  next_record_ += appended.records->size();
  metrics_->log_records.Add(appended.records->size());
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
    out->Say(Severity::kError, "shard " + std::to_string(options_.shard) +
                                   " cannot begin its log: " + result.status.message() + "; it tries again");
    return;
  }
  log_ready_ = true;
  log_backoff_.Restart();
  FinishReset(now, out);
}

// A snapshot of this timeline records how much of the log it contains. The snapshot that the timeline began with
// contains none of it.
Status Shard::BeginReplay(const SnapshotLoad& load) {
  if (!Durable() || history_ == generation_) return {};
  if (load.reset().snapshot.generation >= history_) {
    const std::vector<SnapshotHeader>& headers = load.headers();
    const bool knows = headers.size() == options_.shard_count && headers[options_.shard].log_begin != 0;
    if (!knows) return Invalid("the snapshot does not say where the log of this shard goes on");
    next_record_ = headers[options_.shard].log_begin;
  }
  log_work_.push_back(ReadLog{generation_, OwnHistory(), next_record_});
  return {};
}

void Shard::On(LogRead result, Instant now, Outbox* out) {
  if (!load_ || !loaded_ || log_ready_ || result.generation != generation_ || result.from != next_record_) return;
  Status status = std::move(result.status);
  for (const PushLogRecord& record : result.piece.records) {
    if (status.ok()) status = ReplayRecord(record);
  }
  if (!status.ok()) return FailReset(status.message(), out);
  next_record_ += result.piece.records.size();
  metrics_->log_replayed.Add(result.piece.records.size());
  if (!result.piece.last) {
    log_work_.push_back(ReadLog{generation_, OwnHistory(), next_record_});
    return;
  }
  log_ready_ = true;
  out->Say(Severity::kInfo, "shard " + std::to_string(options_.shard) + " goes on after record " +
                                std::to_string(logged_records()) + " of its log");
  FinishReset(now, out);
}

Status Shard::CheckReplay(const PushRecord& push) const {
  const auto local = local_of_.find(push.block);
  const bool fits =
      local != local_of_.end() && push.slot < slot_count_ &&
      push.payload.size ==
          (push.samples == 0 ? 0 : store_->count(local->second) * BytesPerNumber(store_->encoding(local->second)));
  if (fits && push.hyper.size() != catalog_->group_count()) {
    return Corrupt("a record of the log has hyper-parameters of " + std::to_string(push.hyper.size()) +
                   " groups, the job's tensors are of " + std::to_string(catalog_->group_count()));
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
  if (end != nullptr &&
      (end->report.slot >= slot_count_ || end->report.slot % options_.shard_count != options_.shard)) {
    return Corrupt("a record of the log is of slot " + std::to_string(end->report.slot) + ", which does not end here");
  }
  const std::uint64_t last =
      push != nullptr ? progress_[local_of_[push->block]].last[push->slot] : ended_[end->report.slot];
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
  out->Say(Severity::kWarning,
           "shard " + std::to_string(options_.shard) + " cannot shorten its log: " + result.status.message());
}

void Shard::Handle(LogResult result, Instant now, Outbox* out) {
  std::visit([&](auto& body) { On(std::move(body), now, out); }, result);
}

}  // namespace capstan::server
