#include "server/coordinator/clocked_steps.h"

#include <algorithm>
#include <limits>

#include "common/config/job/job_section.h"
#include "common/config/job_config.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/shard_reports.h"
#include "monitoring/metrics.h"
#include "server/coordinator/coordinator_options.h"
#include "server/coordinator/journal.h"
#include "server/coordinator/shard_table.h"
#include "server/coordinator/snapshots.h"

namespace capstan::server {

namespace {

// Returns the steps from the slowest slot to the fastest. Slots that a shard without blocks does not wait for have huge
// clocks there, and do not count.
std::uint64_t SkewOf(const std::vector<SequenceNumber>& clocks) {
  std::uint64_t slowest = std::numeric_limits<std::uint64_t>::max(), fastest = 0;
  for (const SequenceNumber clock : clocks) {
    if (clock.value > std::numeric_limits<std::uint64_t>::max() / 2) continue;
    slowest = std::min(slowest, clock.value);
    fastest = std::max(fastest, clock.value);
  }
  return fastest - std::min(fastest, slowest);
}

}  // namespace

ClockedSteps::ClockedSteps(const JobFacts& facts, bool durable)
    : Steps(facts),
      durable_(durable),
      reaches_(facts.shards.size()),
      clocks_(std::vector<SequenceNumber>(facts.shards.size())),
      skews_(facts.shards.size()) {}

void ClockedSteps::EndGeneration() {
  taken_over_.reset();
  reports_.clear();
  clocks_ = RunningMinimum(std::vector<SequenceNumber>(facts_.shards.size()));
  skews_.assign(facts_.shards.size(), 0);
}

void ClockedSteps::Begin() {
  const RecoverRecord& recover = facts_.journal.recover();
  const bool continues = facts_.journal.ContinuesTimeline();
  step_ = continues ? StepOfShards(recover) : Step{recover.snapshot.version.value};
  parameters_ = continues ? ParametersAt(step_) : recover.parameters;
}

void ClockedSteps::Resume(Instant, Outbox*) {
  step_ = {};
  for (const ShardEntry& shard : facts_.shards) step_ = std::max(step_, Step{shard.hello->version.value});
  parameters_ = ParametersAt(step_);
  const bool all = std::all_of(facts_.shards.begin(), facts_.shards.end(),
                               [&](const ShardEntry& shard) { return shard.hello->version.value == step_.value; });
  if (all && step_.value > 0) taken_over_ = step_;
}

void ClockedSteps::ForgetShard(ShardIndex shard) {
  taken_over_.reset();
  reaches_[shard] = {};
  clocks_.Set(shard, {});
  skews_[shard] = 0;
}

bool ClockedSteps::Take(const Progress& progress) {
  const SlotIndex slots = facts_.options.config.job.slots;
  if (progress.clocks.size() != slots) return false;
  const auto is_foreign = [&](const Progress::Entry& entry) { return entry.report.slot >= slots; };
  if (std::any_of(progress.reports.begin(), progress.reports.end(), is_foreign)) return false;
  clocks_.Set(progress.shard, *std::min_element(progress.clocks.begin(), progress.clocks.end()));
  skews_[progress.shard] = SkewOf(progress.clocks);
  facts_.metrics.slot_skew_steps.Set(static_cast<double>(*std::max_element(skews_.begin(), skews_.end())));
  const bool all = progress.reports.size() < Progress::kReportsMax;
  reaches_[progress.shard] =
      all ? kAllReports : Reach(progress.reports.back().sequence, progress.reports.back().report.slot);
  for (const Progress::Entry& entry : progress.reports) {
    if (StepOf(entry.sequence) > step_) reports_[entry.sequence].try_emplace(entry.report.slot, entry.report);
  }
  return true;
}

// A shard sends its oldest reports, in order. If later reports have arrived but not this one, the shard has dropped it
// (ClockedStep::KeepReport), so it is not waited for.
bool ClockedSteps::ReportsAreIn(SequenceNumber number, const ReportsBySlot& reports) const {
  const SlotIndex slots = facts_.options.config.job.slots;
  if (reports.size() == slots) return true;
  for (SlotIndex slot = 0; slot < slots; ++slot) {
    if (reports.contains(slot)) continue;
    if (reaches_[slot % reaches_.size()] < Reach(number, slot)) return false;
  }
  return true;
}

StepRecord ClockedSteps::MakeRecord(const ReportsBySlot& reports) const {
  StepRecord record;
  record.generation = facts_.journal.generation();
  record.step = step_;
  record.learning_rate = static_cast<double>(parameters_.learning_rate);
  record.gradient_norm = std::numeric_limits<double>::quiet_NaN();  // no gradient of all slots exists
  std::vector<SlotReport> all;
  for (const auto& [slot, report] : reports) all.push_back(report);
  AddSlotReports(std::move(all), &record);
  return record;
}

Steps::Decision ClockedSteps::Decide(const Snapshots&, bool, Instant, Outbox*) {
  Decision decision;
  const Step clock = std::min(Step{facts_.options.config.job.steps}, StepOf(clocks_.least()));
  while (step_ < clock) {
    const SequenceNumber next = SequenceOf(step_.Next());
    const ReportsBySlot& reports = reports_[next];
    if (!ReportsAreIn(next, reports)) break;
    decision.records.push_back(MakeRecord(reports));
    facts_.metrics.steps_applied.Add(1);
    reports_.erase(next);
    step_ = step_.Next();
    parameters_ = ParametersAt(step_);
  }
  decision.ended = parameters_.stop && clock >= step_;
  return decision;
}

void ClockedSteps::Announce(Instant, Outbox* out) {
  for (const ShardEntry& shard : facts_.shards) AddToPing(shard.peer, out);
}

void ClockedSteps::AddToPing(PeerId shard, Outbox* out) const {
  out->Send(shard, ClockUpdate{facts_.journal.term(), facts_.journal.generation(), SequenceOf(step_), parameters_});
}

bool ClockedSteps::AllPublished() const {
  return step_.value == facts_.journal.recover().snapshot.version.value || taken_over_ == step_;
}

bool ClockedSteps::IsPinDue(const Snapshots& snapshots, Instant now) const {
  return snapshots.IsDueSince(step_, facts_.journal.recover().snapshot.version, now);
}

StepParameters ClockedSteps::ParametersOfSnapshot(const ManifestRecord& manifest) const {
  return ParametersAt(Step{manifest.id.version.value});
}

StepParameters ClockedSteps::ParametersAt(Step step) const {
  return ParametersOf(facts_.options.config, step, step.value);
}

}  // namespace capstan::server
