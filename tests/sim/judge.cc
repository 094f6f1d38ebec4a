#include "tests/sim/judge.h"

#include <cstdio>
#include <set>
#include <span>

#include "server/shard/admission.h"

namespace capstan::sim {

std::string NameOf(Mode mode) {
  switch (mode) {
    case Mode::kSync: return "sync";
    case Mode::kAsync: return "async";
    case Mode::kBounded: return "bounded";
    case Mode::kAllReduce: return "allreduce";
  }
  return "";
}

ClusterOptions OptionsOf(const RunName& name) {
  if (name.old || name.slow_lines) {
    ClusterOptions options = name.old ? OldJob(name.seed, name.mode, name.old_steps) : SlowLines(name.seed, name.mode);
    options.durable = name.durable;
    return options;
  }
  ClusterOptions options = RandomOptions(name.seed, name.edition);
  options.mode = name.mode;
  options.staleness = name.mode == Mode::kBounded ? name.seed % 4 : options.staleness;
  options.durable = name.durable;
  options.local = name.local;
  if (name.median) options.aggregation = Aggregation::kMedian;
  if (name.external) {
    options.optimizer = OptimizerKind::kExternal;
    options.program_clip = ClusterOptions::ProgramClip::kNone;  // the client refuses limits in such a job
    options.precision = Precision::kFp32;
    options.clip_norm = 0.0;
    options.groups = false;
    options.program_state = ClusterOptions::ProgramState::kNone;
  }
  if (WorkersUpdate(name.mode) || name.local) options.given = options.groups = false;  // needs user programs
  if (name.durable) AddLogTroubles(&options);
  // fp16 needs a loss scale, and is simulated only in sync. Trust ratios need a decision of the coordinator per step.
  if (name.mode != Mode::kSync && options.precision == Precision::kFp16) options.precision = Precision::kBf16;
  if (!HasGlobalSteps(name.mode)) options.optimizer = OptimizerKind::kAdamW;
  if (name.mode != Mode::kSync) options.program_state = ClusterOptions::ProgramState::kNone;
  if (name.mode != Mode::kSync || name.local) options.program_clip = ClusterOptions::ProgramClip::kNone;
  if (name.shared) ShareMemory(&options);
  return options;
}

std::string Judge::Try(const RunName& name, const Mutant* mutant, std::function<void(const std::string&)> trace) {
  ClusterOptions options = OptionsOf(name);
  options.trace = std::move(trace);
  const Outcome outcome = RunCluster(options, mutant);
  events_.Add(outcome.events_hash);
  events_.Add(std::as_bytes(std::span(outcome.weights)));
  for (const auto& [what, count] : outcome.counts) {
    Tally& tally = counts_[what];
    tally.times += count;
    tally.jobs += count > 0 ? 1 : 0;
  }
  return Examine(options, outcome);
}

std::string Judge::Examine(const ClusterOptions& options, const Outcome& outcome) {
  if (!outcome.violation.empty()) return outcome.violation;
  if (!outcome.finished) return "not finished";
  if (options.mode == Mode::kSync) {
    ClusterOptions undisturbed = Undisturbed(options);
    for (std::uint32_t kind = 0; kind < (options.given ? options.given_kinds : 1); ++kind) {
      undisturbed.given_from = options.given_from + kind;
      std::vector<float>& reference = references_[ReferenceKey(undisturbed)];
      if (reference.empty()) reference = RunCluster(undisturbed).weights;
      if (outcome.weights == reference) return "";
    }
    return "other weights";
  }
  std::set<std::uint64_t> steps;  // a new coordinator may report the newest steps again
  for (const StepRecord& record : outcome.records) steps.insert(record.step.value);
  return steps.size() == options.steps ? "" : "steps without a record";
}

void PrintCounts(const Judge& judge) {
  for (const auto& [what, tally] : judge.counts()) {
    std::printf("%12llu in %7llu jobs: %s\n", static_cast<unsigned long long>(tally.times),
                static_cast<unsigned long long>(tally.jobs), what.c_str());
  }
}

}  // namespace capstan::sim
