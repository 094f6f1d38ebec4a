#include "server/coordinator/job_status.h"

#include <algorithm>

#include "common/base/utf8.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "server/coordinator/coordinator_text.h"
#include "server/coordinator/job.h"
#include "server/coordinator/step_log.h"
#include "server/coordinator/waiting.h"

namespace capstan::server {
namespace {

constexpr std::size_t kRowsMax = 256;  // workers and shards, each

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : PrintableLine(text)) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

// Text such as "0-3, 6".
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

void Add(std::string* json, const char* name, const std::string& value) {
  *json += (json->size() > 1 ? ", \"" : "\"") + std::string(name) + "\": " + value;
}

}  // namespace

std::string StatusJson(const Job& job, Instant now) {
  const JobConfig& config = job.options.config;
  const std::string waiting = WaitingLine(job, now);
  std::string json = "{";
  Add(&json, "role", "\"coordinator\"");
  Add(&json, "job", Quoted(config.name()));
  Add(&json, "state", waiting.empty() ? Quoted(Word(job.state.now())) : "\"waiting\"");
  if (!waiting.empty()) Add(&json, "waiting", Quoted(waiting));
  if (!job.state.failure().ok()) Add(&json, "failure", Quoted(job.state.failure().message()));
  Add(&json, "step", std::to_string(job.steps->step().value));
  Add(&json, "steps", std::to_string(config.steps()));
  if (job.metrics->loss.value()) Add(&json, "loss", JsonNumber(*job.metrics->loss.value()));
  if (job.metrics->validation_loss.value())
    Add(&json, "validation_loss", JsonNumber(*job.metrics->validation_loss.value()));
  if (job.metrics->learning_rate.value()) Add(&json, "learning_rate", JsonNumber(*job.metrics->learning_rate.value()));
  const std::optional<double> each = job.records.MeanSeconds();
  if (job.state.now() == CoordinatorState::kRunning && waiting.empty() && each &&
      config.steps() > job.steps->step().value) {
    const double left = *each * static_cast<double>(config.steps() - job.steps->step().value);
    Add(&json, "seconds_left", std::to_string(static_cast<std::uint64_t>(std::min(left, 1e15))));
  }
  Add(&json, "slots", std::to_string(job.slot_count()));
  Add(&json, "generation", std::to_string(job.journal.generation().value));
  std::string rows;
  std::size_t count = 0;
  for (const auto& [session, worker] : job.members.workers()) {
    if (++count > kRowsMax) break;
    const bool computing = worker.computing && worker.generation == job.journal.generation();
    std::string row = "{";
    Add(&row, "worker", Quoted(worker.name));
    Add(&row, "state", worker.idle ? "\"no slot\"" : computing ? "\"computing\"" : "\"waiting\"");
    Add(&row, "step", std::to_string(worker.step.value));
    Add(&row, "slots", Quoted(Ranges(worker.slots)));
    Add(&row, "last_heard", Quoted(WholeSeconds(now - worker.last_heard) + " ago"));
    AddName(&rows, row + "}");
  }
  Add(&json, "worker_count", std::to_string(job.members.size()));
  Add(&json, "workers", "[" + rows + "]");
  rows.clear();
  for (ShardIndex i = 0; i < job.shards.size() && i < kRowsMax; ++i) {
    const ShardEntry& shard = job.shards[i];
    const bool silent = shard.hello && shard.IsSilent(now);
    const bool at_work = job.state.now() != CoordinatorState::kResetting || shard.has_begun;
    std::string row = "{";
    Add(&row, "shard", Quoted(job.shards.NameOf(i)));
    Add(&row, "state", !shard.hello ? "\"never seen\"" : silent ? "\"silent\"" : at_work ? "\"alive\"" : "\"loading\"");
    Add(&row, "address", Quoted(shard.hello ? shard.hello->endpoint : ""));
    AddName(&rows, row + "}");
  }
  Add(&json, "shard_count", std::to_string(job.shards.size()));
  Add(&json, "shards", "[" + rows + "]");
  return json + "}";
}

}  // namespace capstan::server
