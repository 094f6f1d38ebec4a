#include "server/coordinator/job_status.h"

#include <nlohmann/json.hpp>
#include <algorithm>

#include "common/base/utf8.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "server/coordinator/coordinator_text.h"
#include "server/coordinator/job.h"
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

}  // namespace

std::string StatusJson(const Job& job, Instant now) {
  const JobConfig& config = job.options.config;
  const std::string waiting = WaitingLine(job, now);
  Json json = {{"role", "coordinator"},
               {"job", PrintableLine(config.name())},
               {"state", waiting.empty() ? Word(job.state.now()) : "waiting"}};
  if (!waiting.empty()) json["waiting"] = PrintableLine(waiting);
  if (!job.state.failure().ok()) json["failure"] = PrintableLine(job.state.failure().message());
  json["step"] = job.steps->step().value;
  json["steps"] = config.steps();
  if (job.metrics->loss.value()) json["loss"] = *job.metrics->loss.value();
  if (job.metrics->validation_loss.value()) json["validation_loss"] = *job.metrics->validation_loss.value();
  if (job.metrics->learning_rate.value()) json["learning_rate"] = *job.metrics->learning_rate.value();
  const std::optional<double> each = job.records.MeanSeconds();
  if (job.state.now() == CoordinatorState::kRunning && waiting.empty() && each &&
      config.steps() > job.steps->step().value) {
    const double left = *each * static_cast<double>(config.steps() - job.steps->step().value);
    json["seconds_left"] = static_cast<std::uint64_t>(std::min(left, 1e15));
  }
  json["slots"] = job.slot_count();
  json["generation"] = job.journal.generation().value;
  json["worker_count"] = job.members.size();
  Json& workers = json["workers"] = Json::array();
  for (const auto& [joined, worker] : job.members.workers()) {
    if (workers.size() == kRowsMax) break;
    const bool computing = worker.computing && worker.generation == job.journal.generation();
    workers.push_back({{"worker", PrintableLine(worker.name)},
                       {"state", worker.idle ? "no slot"
                                 : computing ? "computing"
                                             : "waiting"},
                       {"step", worker.step.value},
                       {"slots", Ranges(worker.slots)},
                       {"last_heard", WholeSeconds(now - worker.last_message) + " ago"}});
  }
  Json aside = Json::array();
  for (const SetAside::Case& one : job.members.set_aside().cases()) {
    if (aside.size() == kRowsMax) break;
    aside.push_back({{"worker", PrintableLine(one.worker)}, {"why", PrintableLine(one.why)}});
  }
  if (!aside.empty()) json["set_aside"] = std::move(aside);
  json["shard_count"] = job.shards.size();
  Json& shards = json["shards"] = Json::array();
  for (ShardIndex i = 0; i < job.shards.size() && i < kRowsMax; ++i) {
    const ShardEntry& shard = job.shards[i];
    const bool silent = shard.hello && shard.IsSilent(now);
    const bool at_work = job.state.now() != CoordinatorState::kResetting || shard.has_begun;
    shards.push_back({{"shard", job.shards.NameOf(i)},
                      {"state", !shard.hello ? "never seen"
                                : silent     ? "silent"
                                : at_work    ? "alive"
                                             : "loading"},
                      {"address", PrintableLine(shard.hello ? shard.hello->endpoint : "")}});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace capstan::server
