// JobConfig's constructors and comparison; its sections are one object on the heap.
#include "common/base/process_address.h"
#include "common/config/job/sections.h"
#include "common/config/job_config.h"

namespace capstan {

struct JobConfig::Sections {
  JobSection job;
  ModelSection model;
  DataSection data;
  OptimizerSection optimizer;
  ScheduleSection schedule;
  ClusterSection cluster;
  WorkerSection worker;
  SnapshotSection snapshot;
  LimitsSection limits;
  AllReduceSection allreduce;
  MetricsSection metrics;
  SecuritySection security;
  bool operator==(const Sections&) const = default;
};

JobConfig::JobConfig(std::unique_ptr<Sections> sections)
    : sections_(std::move(sections)),
      job(sections_->job),
      model(sections_->model),
      data(sections_->data),
      optimizer(sections_->optimizer),
      schedule(sections_->schedule),
      cluster(sections_->cluster),
      worker(sections_->worker),
      snapshot(sections_->snapshot),
      limits(sections_->limits),
      allreduce(sections_->allreduce),
      metrics(sections_->metrics),
      security(sections_->security) {}

JobConfig::JobConfig() : JobConfig(std::make_unique<Sections>()) {}
JobConfig::JobConfig(const JobConfig& other) : JobConfig(std::make_unique<Sections>(*other.sections_)) {}
JobConfig::~JobConfig() = default;

JobConfig& JobConfig::operator=(const JobConfig& other) {
  *sections_ = *other.sections_;
  return *this;
}

EditableJobConfig::EditableJobConfig() : EditableJobConfig(JobConfig()) {}
EditableJobConfig::EditableJobConfig(const EditableJobConfig& other)
    : EditableJobConfig(static_cast<const JobConfig&>(other)) {}
EditableJobConfig::EditableJobConfig(const JobConfig& other)
    : JobConfig(other),
      job(sections_->job),
      model(sections_->model),
      data(sections_->data),
      optimizer(sections_->optimizer),
      schedule(sections_->schedule),
      cluster(sections_->cluster),
      worker(sections_->worker),
      snapshot(sections_->snapshot),
      limits(sections_->limits),
      allreduce(sections_->allreduce),
      metrics(sections_->metrics),
      security(sections_->security) {}

EditableJobConfig& EditableJobConfig::operator=(const EditableJobConfig& other) {
  JobConfig::operator=(other);
  return *this;
}

bool JobConfig::operator==(const JobConfig& other) const { return *sections_ == *other.sections_; }

const std::string& JobConfig::name() const { return job.name; }
Mode JobConfig::mode() const { return job.mode; }
std::uint64_t JobConfig::steps() const { return job.steps; }
std::uint32_t JobConfig::slots() const { return job.slots; }
std::uint32_t JobConfig::shard_count() const { return cluster.servers * cluster.shards_per_server; }

namespace {

// Whether an address in the section is one for TCP.
bool NamesTcp(const ClusterSection& cluster) {
  const bool coordinator = cluster.coordinator != kAutoAddress && !IsLocalAddress(cluster.coordinator);
  return coordinator || cluster.listen != ClusterSection().listen || !cluster.advertise.empty();
}

}  // namespace

bool ReducesLocally(const JobConfig& config) { return config.allreduce.local_reduce != LocalReduce::kNone; }

Aggregation AggregationOf(const JobConfig& config) {
  return HasGlobalSteps(config.mode()) ? config.job.aggregation : Aggregation::kNone;
}

TransportWord TransportOf(const JobConfig& config) {
  if (config.security.transport != TransportWord::kAuto) return config.security.transport;
  if (!KeyInAddress(config.cluster.coordinator).empty()) return TransportWord::kCurve;
  return NamesTcp(config.cluster) ? TransportWord::kPlaintext : TransportWord::kLocal;
}

Collective CollectiveOf(const JobConfig& config) {
  const bool encrypts = TransportOf(config) == TransportWord::kCurve && !config.security.plaintext_collectives;
  const Collective written = config.allreduce.collective;
  return written == Collective::kAuto && encrypts ? Collective::kSecure : written;
}

bool EncryptsCollectives(const JobConfig& config) {
  if (WorkersUpdate(config.mode())) return CollectiveOf(config) == Collective::kSecure;
  return config.allreduce.local_reduce == LocalReduce::kSecure;
}

Encoding EncodingOf(const JobConfig& config) {
  if (!config.model.built_in()) return Encoding::kFp32;
  switch (config.worker.precision) {
    case Precision::kFp32: return Encoding::kFp32;
    case Precision::kBf16: return Encoding::kBf16;
    case Precision::kFp16: return Encoding::kFp16;
  }
  return Encoding::kFp32;
}

}  // namespace capstan
