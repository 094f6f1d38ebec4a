// StatusFeed: hands the state of a job, and its history, as JSON objects for the status page, from the loop's thread to
// others.
//
// Kind:   part of CoordinatorLoop; its thread publishes and adds, and any thread may call Read and HistoryJson.
// Limits: a new text every kEvery, and at once when the job's state changes. Those of History.
// Why:    a reader copies the history under a mutex, and makes its text without. So the loop never waits for longer
//         than a copy of at most about 400 KB takes.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "common/base/mailbox.h"
#include "common/base/types.h"
#include "common/wire/actor.h"
#include "server/coordinator/coordinator_options.h"
#include "server/coordinator/history.h"
#include "update/verdict.h"

namespace capstan::server {

class Coordinator;

class StatusFeed {
 public:
  static constexpr Instant kEvery = std::chrono::milliseconds(500);

  // Takes the history of an earlier coordinator from the files of its run directory. Call it first.
  void ReadHistory(const std::string& run_dir);
  void Publish(const Coordinator& core, Instant now);
  // Publishes if kEvery has passed, or if the job's state has changed.
  void Look(const Coordinator& core, Instant now);
  void AddSteps(const std::vector<StepRecord>& records);
  // Adds what happened just now.
  void AddEvents(const std::vector<AuditEntry>& entries, Step step);
  std::string Read() const { return text_.Read(); }
  std::string HistoryJson() const;

 private:
  Latest<std::string> text_;
  mutable Guarded<History> history_;
  CoordinatorState published_ = CoordinatorState::kCollecting;  // the job's state when Look last published
  Instant next_{};
};

}  // namespace capstan::server
