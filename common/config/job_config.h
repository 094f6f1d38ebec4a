// JobConfig: the job file after reading and checking, with every default filled in.
//
// Kind:   values.
// Fails:  kInvalid, kUnsupported (a planned word that this build does not have yet). A message about a value starts
//         with file:line:column and shows the line, or starts with the override. A message about an unknown word
//         suggests a similar one.
// Why:    each section has its own header, so a new key recompiles only the sources that use that section. The
//         coordinator sends workers the text of PrintJobConfig, so all of them use the same effective values whatever
//         the defaults of their build.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/aggregation.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/config/job/forward.h"
#include "common/config/job/mode.h"
#include "common/config/job/optimizer_kind.h"

namespace capstan {

// To use a section, include its header from common/config/job/.
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

  // Keys of [job] that many sources read.
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
  const SecuritySection& security;

 private:
  explicit JobConfig(std::unique_ptr<Sections> sections);
};

// A JobConfig whose sections can be written, even through a const EditableJobConfig. Code that only reads takes
// a const JobConfig&.
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
  SecuritySection& security;
};

// Returns the number of slots of a job whose file names none. It does not depend on the number of workers, because the
// bits of the weights depend on the number of slots.
std::uint32_t DefaultSlots(std::uint64_t global_batch);

bool ReducesLocally(const JobConfig& config);

// Returns what the job makes of the gradients of a step's slots.
Aggregation AggregationOf(const JobConfig& config);

// Returns what carries the job's messages; never kAuto.
TransportWord TransportOf(const JobConfig& config);

// Returns what adds up gradients among the workers in mode allreduce; kAuto if the workers find out.
Collective CollectiveOf(const JobConfig& config);
// Whether gradients that workers send each other are encrypted.
bool EncryptsCollectives(const JobConfig& config);

// Returns the number format of the job's weights and gradients on the wire: that of worker.precision; always fp32 with
// [model] kind = "client".
Encoding EncodingOf(const JobConfig& config);

// Read a job file, as a text or from `path`. An override is "section.key=value", with a value in TOML or a bare string.
// Of several overrides of one key, the last one counts.
Result<JobConfig> ParseJobConfig(std::string_view text, std::string_view file_name,
                                 const std::vector<std::string>& overrides = {});
Result<JobConfig> LoadJobConfig(const std::string& path, const std::vector<std::string>& overrides = {});

// Lists every key that a job file can have, as "section.key".
std::vector<std::string> JobFileKeys();

// Returns the job file's word for a kind of optimizer, such as "adamw".
std::string_view WordOf(OptimizerKind kind);

// Prints the effective values as canonical TOML. ParseJobConfig of that text gives the same JobConfig.
std::string PrintJobConfig(const JobConfig& config);

// Returns a hash of the settings that all processes of a job must share. Not included: cluster.workers, min_workers and
// addresses; worker.threads, recompute, command and the device's number; [snapshot], [limits], [metrics], [security];
// allreduce.local_reduce; in modes other than allreduce, all of [allreduce].
std::uint64_t HashJobConfig(const JobConfig& config);

// Describes the first setting that differs and must not, if a run begun with `begun` is to be continued with `now`. An
// example: "[job]: it was begun with seed = 1, now seed = 2: first weights, the samples ... follow from it". Returns ""
// if there is none. These may change: job.steps, eval_every, on_nonfinite and aggregation; optimizer.lr and clip_norm;
// data.path and labels; worker.threads, recompute, command and the device's number; [schedule], [cluster], [snapshot],
// [limits], [allreduce], [metrics] and [security]. Mode sync may become allreduce and the reverse, because both keep
// the same data on disk.
std::string DescribeDifference(const JobConfig& begun, const JobConfig& now);

// Lists each key of `now` in [job], [optimizer] and [schedule] that is new or has another value, such as
// "job.steps = 1000 (it was 600)".
std::vector<std::string> DescribeChanges(const JobConfig& begun, const JobConfig& now);

}  // namespace capstan
