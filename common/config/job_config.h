// JobConfig: the job file, read, checked and with every default filled in.
//
// Kind:   values.
// Fails:  kInvalid, kUnsupported (a word of the design that is not built yet); every message starts with
//         file:line:column (or the override's text), shows the line, and suggests the nearest word.
// Why:    one file for every process. A section is declared in a header of its own, so that a new key compiles only what
//         reads that section. The text of PrintJobConfig is what the coordinator hands to workers, so that all
//         of them run on the same effective values, whatever the defaults of their build.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/config/job/forward.h"
#include "common/config/job/mode.h"

namespace capstan {

// A section is used with the include of its header in common/config/job/.
class JobConfig {
 protected:
  struct Sections;
  const std::unique_ptr<Sections> sections_;

 public:
  JobConfig();
  JobConfig(const JobConfig& other);
  JobConfig& operator=(const JobConfig& other);
  ~JobConfig();
  bool operator==(const JobConfig& other) const;

  // Keys of [job] that many ask for.
  const std::string& name() const;
  Mode mode() const;
  std::uint64_t steps() const;
  std::uint32_t slots() const;

  std::uint32_t shard_count() const;

  const JobSection& job;
  const ModelSection& model;
  const DataSection& data;
  const OptimizerSection& optimizer;
  const ScheduleSection& schedule;
  const ClusterSection& cluster;
  const WorkerSection& worker;
  const SnapshotSection& snapshot;
  const LimitsSection& limits;
  const AllReduceSection& allreduce;
  const MetricsSection& metrics;

 private:
  explicit JobConfig(std::unique_ptr<Sections> sections);
};

// A JobConfig whose sections can be written to, also through a const one: readers take a const JobConfig&.
class EditableJobConfig : public JobConfig {
 public:
  EditableJobConfig();
  EditableJobConfig(const JobConfig& other);
  EditableJobConfig(const EditableJobConfig& other);
  EditableJobConfig& operator=(const EditableJobConfig& other);

  JobSection& job;
  ModelSection& model;
  DataSection& data;
  OptimizerSection& optimizer;
  ScheduleSection& schedule;
  ClusterSection& cluster;
  WorkerSection& worker;
  SnapshotSection& snapshot;
  LimitsSection& limits;
  AllReduceSection& allreduce;
  MetricsSection& metrics;
};

// Slots of a job whose file names none. They follow from the batch alone: the number of workers changes no bit.
std::uint32_t DefaultSlots(std::uint64_t global_batch);

bool ReducesLocally(const JobConfig& config);

// How the weights and gradients of a job travel. Workers that are programs of their own have fp32.
Encoding EncodingOf(const JobConfig& config);

// An override is "section.key=value", the value in TOML or a bare string; the last one of a key counts.
Result<JobConfig> ParseJobConfig(std::string_view text, std::string_view file_name,
                                 const std::vector<std::string>& overrides = {});
Result<JobConfig> LoadJobConfig(const std::string& path, const std::vector<std::string>& overrides = {});

// "section.key" of every key that a job file can have.
std::vector<std::string> JobFileKeys();

// Canonical TOML of the effective values; ParseJobConfig of it gives the same JobConfig.
std::string PrintJobConfig(const JobConfig& config);

// XXH3 of what the bits of the weights depend on and what members must share. Left out: cluster.workers, min_workers
// and addresses, worker.threads, snapshot, limits, metrics.
std::uint64_t HashJobConfig(const JobConfig& config);

// "[job]: it was begun with seed = 1, now seed = 2: the samples of every step follow from it": the first difference with
// which a run cannot be continued, and its reason; empty when there is none. These may change: the number of steps, the
// learning rate, its schedule, clipping and evaluation, from the next step on; members, limits and snapshots; where the
// data lies; sync may become allreduce or the other way round, because what is on disk is the same in both.
std::string DescribeDifference(const JobConfig& begun, const JobConfig& now);

// "job.steps = 1000 (it was 600)": each key of [job], [optimizer] and [schedule] that differs.
std::vector<std::string> DescribeChanges(const JobConfig& begun, const JobConfig& now);

}  // namespace capstan
