// SimLog, FencedLog: the coordinator's log in a simulated cluster. It outlives the coordinator.
//
// Kind:   owned by the cluster; a FencedLog belongs to one start of a coordinator.
// Why:    a coordinator that was replaced must have no log; a flawed log loses what it had reported as durable.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "server/storage/coordinator_log.h"
#include "server/storage/log_record_codec.h"
#include "server/storage/manifests.h"
#include "tests/sim/mutants.h"

namespace capstan::sim {

class SimLog : public server::CoordinatorLog {
 public:
  // `keep`: how many snapshots remain when the log is compacted.
  SimLog(Flaw flaw, std::uint32_t keep) : flaw_(flaw), keep_(keep) {}

  // Keeps the record as the next coordinator would read it: encoded and decoded.
  Status Append(server::LogRecord record) override {
    CAPSTAN_ASSIGN_OR_RETURN(const std::string line, server::EncodeLogRecord(record));
    CAPSTAN_ASSIGN_OR_RETURN(server::LogRecord read, server::DecodeLogRecord(line));
    records_.push_back(std::move(read));
    return {};
  }
  const std::vector<server::LogRecord>& records() const override { return records_; }

  // Call when the coordinator dies. A log with a flaw then loses all records of one kind, or the newest record of one
  // kind if it is among the last two. Every other time the next coordinator finds the log compacted.
  void Crash() {
    if (flaw_ == Flaw::kTermForgotten) Forget<server::TermRecord>();
    LoseNewest();
    if (++crashes_ % 2 == 1) records_ = server::RecordsInForce(records_, keep_);
  }

 private:
  void LoseNewest() {
    for (std::size_t back = 0; back < 2 && back < records_.size(); ++back) {
      const auto record = records_.end() - 1 - static_cast<std::ptrdiff_t>(back);
      if (!Lost(*record)) continue;
      records_.erase(record);
      return;
    }
  }

  template <class Record>
  void Forget() {
    std::erase_if(records_, [](const auto& record) { return std::holds_alternative<Record>(record); });
  }

  bool Lost(const server::LogRecord& record) const {
    switch (flaw_) {
      case Flaw::kRecoverNotDurable: return std::holds_alternative<server::RecoverRecord>(record);
      case Flaw::kRunningNotDurable: return std::holds_alternative<server::RunningRecord>(record);
      case Flaw::kManifestNotDurable: return std::holds_alternative<server::ManifestRecord>(record);
      default: return false;
    }
  }

  const Flaw flaw_;
  const std::uint32_t keep_;
  std::uint32_t crashes_ = 0;
  std::vector<server::LogRecord> records_;
};

// The log as one coordinator sees it. After Fence(), when another coordinator has replaced that one, appends fail and
// no record is visible.
class FencedLog : public server::CoordinatorLog {
 public:
  explicit FencedLog(server::CoordinatorLog* log) : log_(log) {}
  Status Append(server::LogRecord record) override {
    return log_ == nullptr ? Unreachable("the log belongs to another coordinator") : log_->Append(std::move(record));
  }
  const std::vector<server::LogRecord>& records() const override { return log_ == nullptr ? none_ : log_->records(); }
  void Fence() { log_ = nullptr; }

 private:
  server::CoordinatorLog* log_;
  std::vector<server::LogRecord> none_;
};

}  // namespace capstan::sim
