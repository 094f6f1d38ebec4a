// CoordinatorLog: the records that a coordinator needs after a restart, small and appended in order.
//
// Kind:   owned by the coordinator's thread.
// Fails:  Append returns only when the record is durable, or says why not.
// Why:    every record is on disk before a message that depends on it is sent (docs/explanation/design/protocol.md 4).
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
  std::string job_file;  // in canonical form; a resumed job must have the same settings wherever they affect a weight
};
// The declaration of the first worker. Every other worker must declare the same.
struct CatalogRecord {
  std::vector<TensorSpec> tensors;
  std::string numeric_class;
  std::uint64_t numeric_fingerprint = 0;
  std::uint64_t data_fingerprint = 0;
};
struct TermRecord {
  Term term;
};
// Generation `generation` starts from `snapshot`, or from version 0 if that is none. If `timeline` began in an earlier
// generation, this generation continues the timeline where it stopped.
struct RecoverRecord {
  Generation generation;
  SnapshotId snapshot;
  StepParameters parameters;
  // The timeline that the generation belongs to; in a log without timelines, one that begins with the generation.
  TimelineId timeline;
};
struct RunningRecord {  // every shard has answered Reset, in these incarnations
  Generation generation;
  std::vector<Incarnation> incarnations;
};
struct ManifestRecord {  // a snapshot exists: every shard's part is on disk
  SnapshotId id;
  StepParameters parameters;           // for the step that begins with this version
  std::vector<std::uint64_t> digests;  // one for each part, by shard
  std::uint64_t bytes = 0;             // of all parts together
};
struct DoneRecord {};  // all steps are committed and the final weights are written

using LogRecord =
    std::variant<JobRecord, CatalogRecord, TermRecord, RecoverRecord, RunningRecord, ManifestRecord, DoneRecord>;

class CoordinatorLog {
 public:
  virtual ~CoordinatorLog() = default;
  virtual Status Append(LogRecord record) = 0;
  virtual const std::vector<LogRecord>& records() const = 0;
};

// A log in memory, which is lost with its owner: for simulations, and for jobs that end with their coordinator.
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
