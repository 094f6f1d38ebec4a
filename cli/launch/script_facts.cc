#include "cli/launch/script_facts.h"

#include <nlohmann/json.hpp>
#include <algorithm>
#include <filesystem>
#include <utility>

#include "cli/run/json_fields.h"
#include "common/base/utf8.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job/worker_section.h"

namespace capstan::cli {
namespace {

constexpr std::uint64_t kBatchMax = 1 << 24;  // of a job file
constexpr std::uint64_t kSamplesMax = std::uint64_t{1} << 50;
constexpr std::size_t kNameBytesMax = 48;
constexpr std::size_t kOptimizerBytesMax = 64;

std::string Count(std::uint64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string FileOf(const ScriptOptions& options) { return std::filesystem::path(options.script).filename().string(); }

bool IsSet(const ScriptOptions& options, std::string_view key) {
  return std::any_of(options.overrides.begin(), options.overrides.end(), [&](const std::string& one) {
    return one.starts_with(key) && one.size() > key.size() && one[key.size()] == '=';
  });
}

bool HasSteps(const ScriptOptions& options) { return options.steps || options.epochs || IsSet(options, "job.steps"); }

bool IsTrue(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

// The steps of a pass over the script's loader.
std::uint64_t StepsPerEpoch(const ScriptFacts& facts, std::uint64_t global_batch) {
  return facts.drops_last ? facts.samples / global_batch : (facts.samples + global_batch - 1) / global_batch;
}

std::string Text(const std::string& key, std::uint64_t value) { return key + " = " + std::to_string(value) + "\n"; }

std::string OptimizerSection(const ScriptFacts& facts) {
  std::string text = "[optimizer]\nkind = \"" + facts.optimizer + "\"\n";
  if (facts.amsgrad) text += "amsgrad = true\n";
  if (facts.centered) text += "centered = true\n";
  if (facts.momentum != 0) text += "momentum = " + nlohmann::json(facts.momentum).dump() + "\n";
  return text;
}

// Makes the job from a job file, so that the command line's overrides are read and checked as those of capstan launch.
Result<JobConfig> Job(const ScriptOptions& options, const ScriptFacts& facts, std::uint64_t steps) {
  const std::uint32_t slots = options.slots > 0 ? options.slots : options.workers;
  const std::string file = "[job]\nname = \"" + NameOfScript(options.script) + "\"\n" + Text("steps", steps) +
                           Text("global_batch", facts.global_batch) + Text("slots", slots) +
                           "[model]\nkind = \"client\"\n" + OptimizerSection(facts) + "[cluster]\n" +
                           Text("servers", options.servers) + Text("workers", options.workers);
  CAPSTAN_ASSIGN_OR_RETURN(const JobConfig parsed,
                           ParseJobConfig(file, "the job of " + FileOf(options), options.overrides));
  if (parsed.model.built_in()) {
    return Invalid(
        "--set model.kind: capstan run trains the model of a script; leave it out, or write a job file for " +
        std::string("capstan launch"));
  }
  EditableJobConfig job = parsed;
  if (!IsSet(options, "worker.command")) job.worker.command = options.command;
  return JobConfig(job);
}

}  // namespace

Result<ScriptFacts> ParseScriptFacts(std::string_view json) {
  const nlohmann::json object = ParseJson(json);
  ScriptFacts facts;
  facts.optimizer = object.is_object() ? TextIn(object, "optimizer") : "";
  const bool is_word = !facts.optimizer.empty() && facts.optimizer.size() <= kOptimizerBytesMax &&
                       std::all_of(facts.optimizer.begin(), facts.optimizer.end(),
                                   [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
  if (!is_word) {
    return Invalid("the script sent no facts of a job but \"" + CleanUtf8(std::string(json.substr(0, 80)), 80) +
                   "\"; its capstan package is of another version than this capstan: install both from one build");
  }
  facts.global_batch = CountIn(object, "global_batch").value_or(0);
  facts.samples = CountIn(object, "samples").value_or(0);
  facts.drops_last = IsTrue(object, "drop_last");
  facts.amsgrad = IsTrue(object, "amsgrad");
  facts.centered = IsTrue(object, "centered");
  facts.momentum = NumberIn(object, "momentum").value_or(0);
  if (facts.global_batch > kBatchMax || facts.samples > kSamplesMax) {
    return Invalid("the script's loader has batches of " + std::to_string(facts.global_batch) + " of " +
                   std::to_string(facts.samples) + " samples; a job takes batches of at most " +
                   std::to_string(kBatchMax));
  }
  return facts;
}

Result<JobConfig> DraftOfScriptJob(const ScriptOptions& options) {
  if (options.epochs == 0) return Invalid("--epochs 0: a job has at least one epoch");
  ScriptFacts facts;
  facts.optimizer = "adamw";
  facts.global_batch = kBatchMax;
  return Job(options, facts, options.steps.value_or(kOpenEndedSteps));
}

Result<JobConfig> ScriptJob(const ScriptOptions& options, const ScriptFacts& facts) {
  const std::string file = FileOf(options);
  ScriptFacts known = facts;
  if (facts.global_batch == 0) {
    if (!IsSet(options, "job.global_batch")) {
      return Invalid(file +
                     " gave prepare() no loader, so nothing says how many samples an update has, all slots together: "
                     "add --set job.global_batch=N");
    }
    if (options.epochs && !IsSet(options, "job.steps")) {
      return Invalid("--epochs counts passes over a prepared loader, and " + file +
                     " gave prepare() none: write --steps N");
    }
    known.global_batch = kBatchMax;  // which --set replaces
  }
  CAPSTAN_ASSIGN_OR_RETURN(const JobConfig job, Job(options, known, options.steps.value_or(kOpenEndedSteps)));
  if (job.optimizer.kind == OptimizerKind::kExternal && job.job.steps == kOpenEndedSteps && !options.epochs) {
    return Invalid(file +
                   " runs its optimizer itself, because the servers do not run one of this class, and after the end of "
                   "its loop nobody would be left to give the last version: write --steps N or --epochs N");
  }
  if (!options.epochs || IsSet(options, "job.steps")) return job;
  const std::uint64_t per_epoch = StepsPerEpoch(facts, job.job.global_batch);
  if (per_epoch == 0) {
    return Invalid(
        "the loader of " + file + " has " + Count(facts.samples, "sample") + ", fewer than a global batch of " +
        std::to_string(job.job.global_batch) +
        ", and drops a last batch that is not full: an epoch would have no step; give it a smaller batch_size");
  }
  if (*options.epochs > kOpenEndedSteps / per_epoch) {
    return Invalid("--epochs " + std::to_string(*options.epochs) + " are more steps than a job can have; lower it");
  }
  return Job(options, known, *options.epochs * per_epoch);
}

std::vector<std::string> DescribeScriptJob(const ScriptOptions& options, const ScriptFacts& facts,
                                           const JobConfig& job) {
  const std::string file = FileOf(options);
  std::string line = "the job of " + file + ": optimizer.kind = \"" + facts.optimizer + "\", global batch of " +
                     Count(job.job.global_batch, "sample") + " in " + Count(job.job.slots, "slot");
  if (facts.samples > 0) {
    line += ", " + Count(StepsPerEpoch(facts, job.job.global_batch), "step") + " in an epoch of " +
            Count(facts.samples, "sample");
  }
  std::string steps = "its steps: ";
  if (HasSteps(options)) {
    steps += std::to_string(job.job.steps);
    if (options.epochs && !IsSet(options, "job.steps")) steps += " (--epochs " + std::to_string(*options.epochs) + ")";
  } else {
    steps += "until the loop of " + file + " ends; --steps N or --epochs N gives a number";
  }
  return {std::move(line), std::move(steps)};
}

std::string NameOfScript(const std::string& script) {
  std::string name = std::filesystem::path(script).stem().string();
  for (char& c : name) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
    if (!plain) c = '-';
  }
  name.erase(0, std::min(name.find_first_not_of(".-"), name.size()));
  name.resize(std::min(name.size(), kNameBytesMax));
  return name.empty() ? "script" : name;
}

}  // namespace capstan::cli
