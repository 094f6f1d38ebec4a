#include "server/shard/push_journal.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "server/shard/shard_context.h"
#include "server/storage/snapshot.h"

namespace capstan::server {

PushJournal::PushJournal(const ShardContext& shard)
    : shard_(shard),
      queue_(shard.options.log_bytes_max, shard.options.log_records_max),
      backoff_(shard.options.shard) {}

LogTimeline PushJournal::OwnTimeline() const { return {shard_.timeline, shard_.options.shard_count}; }

// ---- beginning or replaying a log ----------------------------------------------------------------------------------

void PushJournal::Reset(Instant now) {
  queue_.Forget();
  log_begins_.clear();
  next_record_ = 1;
  ready_ = false;
  if (shard_.timeline == TimelineFrom(shard_.generation)) BeginLogOf(now);
}

void PushJournal::BeginLogOf(Instant now) {
  begin_failed_ = false;
  backoff_.Sent(now);
  work_.push_back(BeginLog{OwnTimeline()});
}

void PushJournal::Tick(Instant now) {
  if (!ready_ && begin_failed_ && backoff_.Due(now)) BeginLogOf(now);
}

bool PushJournal::Handle(const LogBegun& result, Outbox* out) {
  if (result.timeline != OwnTimeline() || ready_) return false;
  if (!result.status.ok()) {
    begin_failed_ = true;
    out->Log(Severity::kError,
             shard_.name() + " cannot begin its log: " + result.status.message() + "; it tries again");
    return false;
  }
  ready_ = true;
  backoff_.Restart();
  return true;
}

// Begins with the first record that the snapshot lacks. The header of a snapshot of this timeline has that record's
// number. The snapshot that the timeline began with contains no record of this log, so record 1 is the first.
Status PushJournal::BeginReplay(SnapshotId snapshot, const std::vector<SnapshotHeader>& headers) {
  if (shard_.timeline == TimelineFrom(shard_.generation)) return {};
  if (snapshot.generation >= FirstGeneration(shard_.timeline)) {
    const ShardIndex own = shard_.options.shard;
    const bool knows = headers.size() == shard_.options.shard_count && headers[own].log_begin != 0;
    if (!knows) return Invalid("the snapshot does not say where the log of this shard goes on");
    next_record_ = headers[own].log_begin;
  }
  work_.push_back(ReadLog{shard_.generation, OwnTimeline(), next_record_});
  return {};
}

bool PushJournal::Expects(const LogRead& result) const {
  return !ready_ && result.generation == shard_.generation && result.from == next_record_;
}

bool PushJournal::Replayed(const PushLog::Piece& piece, Outbox* out) {
  next_record_ += piece.records.size();
  shard_.metrics->log_replayed.Add(piece.records.size());
  if (!piece.last) {
    work_.push_back(ReadLog{shard_.generation, OwnTimeline(), next_record_});
    return false;
  }
  ready_ = true;
  out->Log(Severity::kInfo,
           shard_.name() + " goes on after record " + std::to_string(applied_records()) + " of its log");
  return true;
}

// ---- appending to the log ------------------------------------------------------------------------------------------

bool PushJournal::Has(SequenceNumber sequence, BlockIndex block, SlotIndex slot) const {
  const std::optional<SequenceNumber> newest = NewestPush(block, slot);
  return newest && sequence <= *newest;
}

void PushJournal::Add(PeerId from, PushLogRecord record, Outbox* out) {
  if (queue_.Full(BytesOf(record))) {
    shard_.metrics->pushes_busy.Add(1);
    return shard_.Refuse(from, Code::kBusy, "the log of this shard is behind", out);
  }
  queue_.Add(from, std::move(record));
}

void PushJournal::Append(Instant now) {
  std::shared_ptr<const std::vector<PushLogRecord>> records = queue_.BeginAppend();
  if (records == nullptr) return;
  append_since_ = now;
  work_.push_back(AppendLog{shard_.timeline, next_record_, std::move(records)});
}

LogQueue::Appended PushJournal::Handle(const LogAppended& result, Instant now, Outbox* out) {
  const bool ours = result.timeline == shard_.timeline && result.first == next_record_ && queue_.appending();
  if (!ours) return {};  // the result belongs to a timeline that has ended
  if (!result.status.ok()) {
    TakeFailedAppend(result.status, out);
    return {};
  }
  shard_.metrics->log_append_seconds.Observe(std::chrono::duration<double>(now - append_since_).count());
  LogQueue::Appended appended = queue_.FinishAppend();
  for (const PushLogRecord& record : *appended.records) shard_.metrics->log_bytes.Add(BytesOf(record));
  shard_.metrics->log_records.Add(appended.records->size());
  next_record_ += appended.records->size();
  return appended;
}

void PushJournal::TakeFailedAppend(const Status& status, Outbox* out) {
  shard_.metrics->log_failures.Add(1);
  std::vector<PeerId> senders = queue_.Forget();
  const std::string why = "cannot write to its log: " + status.message();
  out->Log(Severity::kError, shard_.name() + " " + why + "; " + std::to_string(senders.size()) +
                                 " records are not acknowledged, and will be sent again");
  std::sort(senders.begin(), senders.end());
  senders.erase(std::unique(senders.begin(), senders.end()), senders.end());
  for (const PeerId sender : senders) {
    if (sender.value != 0) shard_.Refuse(sender, Code::kBusy, "this shard " + why, out);
  }
}

// ---- dropping records from the log ---------------------------------------------------------------------------------

void PushJournal::Mark(SnapshotHeader* header) {
  log_begins_[header->id] = next_record_;
  header->log_begin = next_record_;
}

void PushJournal::TrimTo(const std::vector<SnapshotId>& retained) {
  if (retained.empty()) return;
  const auto begin = log_begins_.find(retained.back());
  if (begin == log_begins_.end()) return;
  work_.push_back(TrimLog{begin->second});
  log_begins_.erase(log_begins_.begin(), std::next(begin));
}

void PushJournal::Handle(const LogTrimmed& result, Outbox* out) const {
  if (result.status.ok()) return;
  out->Log(Severity::kWarning, shard_.name() + " cannot shorten its log: " + result.status.message());
}

}  // namespace capstan::server
