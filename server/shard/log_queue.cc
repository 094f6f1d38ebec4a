#include "server/shard/log_queue.h"

#include <algorithm>

namespace capstan::server {

std::pair<LogQueue::Key, SequenceNumber> LogQueue::NameOf(const PushLogRecord& record) {
  if (const auto* push = std::get_if<PushRecord>(&record)) return {{push->block, push->slot}, push->sequence};
  const auto& end = std::get<EndRecord>(record);
  return {{kEnds, end.report.slot}, end.sequence};
}

std::optional<SequenceNumber> LogQueue::Newest(Key key) const {
  const auto found = newest_.find(key);
  return found != newest_.end() ? std::optional(found->second) : std::nullopt;
}

bool LogQueue::Full(std::uint64_t payload_bytes) const {
  if (records_.empty()) return false;
  return records_.size() >= records_max_ || bytes_ + payload_bytes > bytes_max_;
}

void LogQueue::Add(PeerId sender, PushLogRecord record) {
  const auto [key, sequence] = NameOf(record);
  newest_[key] = sequence;
  bytes_ += BytesOf(record);
  records_.push_back(std::move(record));
  senders_.push_back(sender);
}

std::shared_ptr<const std::vector<PushLogRecord>> LogQueue::BeginAppend() {
  if (appending() || records_.empty()) return nullptr;
  appending_.records = std::make_shared<const std::vector<PushLogRecord>>(std::exchange(records_, {}));
  appending_.senders = std::exchange(senders_, {});
  bytes_ = 0;
  return appending_.records;
}

LogQueue::Appended LogQueue::FinishAppend() {
  for (const PushLogRecord& record : *appending_.records) {
    const auto [key, sequence] = NameOf(record);
    const auto newest = newest_.find(key);
    if (newest != newest_.end() && newest->second == sequence) newest_.erase(newest);
  }
  return std::exchange(appending_, {});
}

std::vector<PeerId> LogQueue::Forget() {
  std::vector<PeerId> senders = std::exchange(senders_, {});
  senders.insert(senders.end(), appending_.senders.begin(), appending_.senders.end());
  records_.clear();
  bytes_ = 0;
  appending_ = {};
  newest_.clear();
  return senders;
}

void LogQueue::ForgetSenders() {
  std::fill(senders_.begin(), senders_.end(), PeerId{});
  std::fill(appending_.senders.begin(), appending_.senders.end(), PeerId{});
}

}  // namespace capstan::server
