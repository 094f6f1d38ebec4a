#include "tests/sim/judge.h"

#include <fstream>
#include <set>
#include <sstream>

#include "server/admission.h"

namespace capstan::sim {

namespace {

Mode ModeOf(const std::string& word) {
  for (Mode mode : {Mode::kAsync, Mode::kBounded, Mode::kAllReduce}) {
    if (word == NameOf(mode)) return mode;
  }
  return Mode::kSync;
}

}  // namespace

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
  ClusterOptions options = RandomOptions(name.seed, name.edition);
  options.mode = name.mode;
  options.staleness = name.mode == Mode::kBounded ? name.seed % 4 : options.staleness;
  options.durable = name.durable;
  options.local = name.local;
  if (WorkersUpdate(name.mode) || name.local) options.given = options.groups = false;  // of programs' workers
  if (name.durable) AddLogTroubles(&options);
  // A loss scale needs a verdict, and so do trust ratios.
  if (name.mode != Mode::kSync && options.precision == Precision::kFp16) options.precision = Precision::kBf16;
  if (!HasGlobalSteps(name.mode)) options.optimizer = OptimizerKind::kAdamW;
  if (name.mode != Mode::kSync) options.program_state = ClusterOptions::ProgramState::kNone;
  return options;
}

std::string Judge::Try(const RunName& name, const Mutant* mutant, std::function<void(const std::string&)> trace) {
  ClusterOptions options = OptionsOf(name);
  options.trace = std::move(trace);
  const Outcome outcome = RunCluster(options, mutant);
  for (const auto& [what, count] : outcome.counts) counts_[what] += count;
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
  std::set<std::uint64_t> steps;  // a new coordinator may report the newest ones again
  for (const StepRecord& record : outcome.records) steps.insert(record.step.value);
  return steps.size() == options.steps ? "" : "steps without a record";
}

std::vector<RunName> ReadFailedSeeds(const std::string& path) {
  std::vector<RunName> names;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    RunName name;
    std::string mode;
    if (line.starts_with("#") || !(words >> name.seed >> mode >> name.edition)) continue;
    name.mode = ModeOf(mode.substr(0, mode.find('+')));
    name.durable = mode.ends_with("+durable");
    name.local = mode.ends_with("+local");
    names.push_back(name);
  }
  return names;
}

}  // namespace capstan::sim
