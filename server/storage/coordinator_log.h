// CoordinatorLog: what a coordinator must remember over its own death. Small records, appended in order.
//
// Kind:   owned by the coordinator's thread.
// Fails:  Append returns only when the record is durable, or says why not.
// Why:    every record is on disk before a message that depends on it is sent (PROTOCOL.md 2).
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "common/data/catalog.h"
#include "common/wire/messages/snapshot_id.h"
#include "common/wire/messages/step_parameters.h"

namespace capstan::server {

struct JobRecord {
  JobId job;
  std::string job_file;  // canonical; a job is continued with what its bits depend on unchanged
};
// What the first worker brought; every other one must match it.
struct CatalogRecord {
  std::vector<TensorSpec> tensors;
  std::string numeric_class;
  std::uint64_t numeric_fingerprint = 0;
  std::uint64_t data_fingerprint = 0;
};
struct TermRecord {
  Term term;
};
struct SessionRecord {  // ids up to this one were given to workers, or may have been
  SessionId session;
};
// Generation `generation` starts from `snapshot`, or from version 0; with an older history, from where that one was.
struct RecoverRecord {
  Generation generation;
  SnapshotId snapshot;
  StepParameters parameters;
  // The generation in which the present history began; 0: there is none to go on with.
  Generation history;
};
struct RunningRecord {  // every shard has answered Reset in this incarnation
  Generation generation;
  std::vector<Incarnation> incarnations;
};
struct ManifestRecord {  // a snapshot exists: every shard's part of it is on disk
  SnapshotId id;
  StepParameters parameters;           // of the step that begins there
  std::vector<std::uint64_t> digests;  // of the parts, one for each shard that wrote it
  std::uint64_t bytes = 0;             // of all parts
};
struct DoneRecord {};  // all steps are committed and the final weights are written

using LogRecord = std::variant<JobRecord, CatalogRecord, TermRecord, SessionRecord, RecoverRecord, RunningRecord,
                               ManifestRecord, DoneRecord>;

class CoordinatorLog {
 public:
  virtual ~CoordinatorLog() = default;
  virtual Status Append(LogRecord record) = 0;
  virtual const std::vector<LogRecord>& records() const = 0;
};

// Lives as long as its owner: for simulations, and for jobs that end with their coordinator.
class MemoryCoordinatorLog : public CoordinatorLog {
 public:
  Status Append(LogRecord record) override {
    records_.push_back(std::move(record));
    return {};
  }
  const std::vector<LogRecord>& records() const override { return records_; }

 private:
  std::vector<LogRecord> records_;
};

}  // namespace capstan::server
