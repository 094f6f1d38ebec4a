#include "server/coordinator/job_status.h"

#include <nlohmann/json.hpp>
#include <algorithm>
#include <cmath>

#include "common/base/host_port.h"
#include "common/base/utf8.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "server/coordinator/bound.h"
#include "server/coordinator/coordinator_text.h"
#include "server/coordinator/job.h"
#include "server/coordinator/lag.h"
#include "server/coordinator/waiting.h"

namespace capstan::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kRowsMax = 256;  // at most this many workers are listed, and this many shards

// Lists sorted slots as text such as "0-3, 6".
std::string Ranges(const std::vector<SlotIndex>& slots) {
  std::string text;
  for (std::size_t i = 0; i < slots.size();) {
    std::size_t last = i;
    while (last + 1 < slots.size() && slots[last + 1] == slots[last] + 1) ++last;
    AddName(&text, std::to_string(slots[i]) + (last > i ? "-" + std::to_string(slots[last]) : ""));
    i = last + 1;
  }
  return text;
}

const char* Word(CoordinatorState state) {
  switch (state) {
    case CoordinatorState::kCollecting: return "gathering";
    case CoordinatorState::kResetting: return "starting";
    case CoordinatorState::kRunning: return "running";
    case CoordinatorState::kFinished: return "finished";
    case CoordinatorState::kStopped: return "stopped";
    case CoordinatorState::kFailed: break;
  }
  return "failed";
}

std::string HeardAgo(Instant last, Instant now) { return WholeSeconds(now - last) + " ago"; }

// Rounds a share to whole percents.
double Share(double share) { return std::round(100 * share) / 100; }

void Set(Json* json, const char* key, std::optional<double> value) {
  if (value) (*json)[key] = *value;
}

void AddProgress(const Job& job, bool waits, Json* json) {
  const std::uint64_t step = job.steps->step().value, steps = job.options.config.steps();
  (*json)["step"] = step;
  if (steps != kOpenEndedSteps) (*json)["steps"] = steps;
  Set(json, "loss", job.metrics->loss.value());
  Set(json, "validation_loss", job.metrics->validation_loss.value());
  Set(json, "learning_rate", job.metrics->learning_rate.value());
  Set(json, "grad_norm", job.metrics->gradient_norm.value());
  Set(json, "samples_per_second", job.records.SamplesPerSecond());
  const std::optional<double> each = job.records.MeanSeconds();
  Set(json, "step_seconds", each);
  if (job.state.now() != CoordinatorState::kRunning || waits || !each || steps <= step || steps == kOpenEndedSteps)
    return;
  const double left = *each * static_cast<double>(steps - step);
  (*json)["seconds_left"] = static_cast<std::uint64_t>(std::min(left, 1e15));
}

void AddBound(const Job& job, Instant now, Json* json) {
  const Bound bound = FindBound(job, now);
  Json& shown = (*json)["bound_by"] = {{"what", bound.what}};
  if (!bound.who.empty()) shown["who"] = PrintableLine(bound.who);
  shown["sentence"] = PrintableLine(bound.sentence);
}

Json WorkerRow(const Job& job, const Worker& worker, std::uint64_t lag, Instant now) {
  const bool computing = worker.computing && worker.generation == job.journal.generation();
  Json row = {{"worker", PrintableLine(worker.name)},
              {"state", worker.idle ? "no slot"
                        : computing ? "computing"
                                    : "waiting"},
              {"step", worker.step.value},
              {"lag", lag},
              {"slots", Ranges(worker.slots)},
              {"last_heard", HeardAgo(worker.last_message, now)}};
  if (!worker.machine.empty()) row["machine"] = PrintableLine(worker.machine);
  if (!worker.metrics.empty()) row["metrics"] = PrintableLine(worker.metrics);
  if (TimeShares shares; FindShares(worker, &shares)) {
    row["time"] = {{"compute", Share(shares.compute)},
                   {"input", Share(shares.input)},
                   {"exchange", Share(shares.exchange)},
                   {"commit", Share(shares.commit)}};
  }
  return row;
}

void AddWorkers(const Job& job, Instant now, Json* json) {
  (*json)["worker_count"] = job.members.size();
  Json& rows = (*json)["workers"] = Json::array();
  const LagOfWorkers lag(job, now);
  for (const auto& [joined, worker] : job.members.workers()) {
    if (rows.size() == kRowsMax) break;
    rows.push_back(WorkerRow(job, worker, lag.Of(worker), now));
  }
  Json aside = Json::array();
  for (const SetAside::Case& one : job.members.set_aside().cases()) {
    if (aside.size() == kRowsMax) break;
    aside.push_back({{"worker", PrintableLine(one.worker)}, {"why", PrintableLine(one.why)}});
  }
  if (!aside.empty()) (*json)["set_aside"] = std::move(aside);
}

Json ShardRow(const Job& job, ShardIndex index, Instant now) {
  const ShardEntry& shard = job.shards[index];
  const bool silent = shard.hello && shard.IsSilent(now);
  const bool at_work = job.state.now() != CoordinatorState::kResetting || shard.has_begun;
  Json row = {{"shard", job.shards.NameOf(index)},
              {"state", !shard.hello ? "never seen"
                        : silent     ? "silent"
                        : at_work    ? "alive"
                                     : "loading"},
              {"address", PrintableLine(shard.hello ? shard.hello->endpoint : "")}};
  if (!shard.hello) return row;
  row["last_heard"] = HeardAgo(shard.last_message, now);
  if (IsPagesAddress(shard.hello->metrics)) row["metrics"] = shard.hello->metrics;
  if (const auto busy = shard.time.shares()) row["busy"] = Share((*busy)[0]);
  return row;
}

void AddShards(const Job& job, Instant now, Json* json) {
  (*json)["shard_count"] = job.shards.size();
  Json& rows = (*json)["shards"] = Json::array();
  for (ShardIndex i = 0; i < job.shards.size() && i < kRowsMax; ++i) rows.push_back(ShardRow(job, i, now));
}

// The newest snapshots, newest first.
void AddSnapshots(const Job& job, Instant now, Json* json) {
  Json& rows = (*json)["snapshots"] = Json::array();
  const std::vector<ManifestRecord>& all = job.journal.manifests();
  for (auto one = all.rbegin(); one != all.rend() && rows.size() < kRowsMax; ++one) {
    Json row = {{"version", one->id.version.value}, {"bytes", one->bytes}};
    if (const auto age = job.snapshots.AgeOf(one->id, now)) row["age_seconds"] = std::round(ToSeconds(*age));
    rows.push_back(std::move(row));
  }
  if (!job.snapshots.pending()) return;
  (*json)["snapshot_pending"] = {{"version", job.snapshots.pending_version().value},
                                 {"seconds", std::round(ToSeconds(job.snapshots.PendingFor(now)))},
                                 {"waits_for", PrintableLine(job.snapshots.MissingParts())}};
}

}  // namespace

std::string StatusJson(const Job& job, Instant now) {
  const std::string waiting = WaitingLine(job, now);
  Json json = {{"role", "coordinator"},
               {"job", PrintableLine(job.options.config.name())},
               {"state", waiting.empty() ? Word(job.state.now()) : "waiting"}};
  if (!waiting.empty()) json["waiting"] = PrintableLine(waiting);
  if (!job.state.failure().ok()) json["failure"] = PrintableLine(job.state.failure().message());
  AddProgress(job, !waiting.empty(), &json);
  AddBound(job, now, &json);
  json["slots"] = job.slot_count();
  json["generation"] = job.journal.generation().value;
  json["seconds_up"] = std::floor(ToSeconds(now - job.clock.started()));
  AddWorkers(job, now, &json);
  AddShards(job, now, &json);
  AddSnapshots(job, now, &json);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace capstan::server
