// ScriptFacts: what a script's objects say in prepare() about the job that it needs. ScriptJob: that job.
//
// Kind:   values, and pure functions.
// Fails:  kInvalid: facts that no script gives, or that make no job.
// Why:    `capstan run` takes no job file: optimizer, global batch and steps follow from the script.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/config/job_config.h"

namespace capstan::cli {

struct ScriptFacts {
  std::string optimizer;           // a word for optimizer.kind
  std::uint64_t global_batch = 0;  // samples of an update by the prepared loader; 0: none was prepared
  std::uint64_t samples = 0;       // of the loader's data set
  bool drops_last = false;         // the loader leaves out a last batch that is not full
  // Keys of [optimizer] that decide which arrays the servers keep.
  bool amsgrad = false, centered = false;
  double momentum = 0;  // of RMSprop
};

// Reads facts from a script's JSON object.
Result<ScriptFacts> ParseScriptFacts(std::string_view json);

// The part of the job that the command line of `capstan run` gives.
struct ScriptOptions {
  std::string script;  // its path
  std::uint32_t servers = 1, workers = 1;
  std::uint32_t slots = 0;  // 0: as many as workers
  std::optional<std::uint64_t> steps, epochs;
  std::vector<std::string> overrides;  // "section.key=value"; they come before everything else
  std::vector<std::string> command;    // for worker.command
};

// Returns the job as far as the command line has it, before the script was started. Keys that follow from the script
// have values that fit.
Result<JobConfig> DraftOfScriptJob(const ScriptOptions& options);
// Returns the whole job. Without steps or epochs it has kOpenEndedSteps.
Result<JobConfig> ScriptJob(const ScriptOptions& options, const ScriptFacts& facts);
// Returns the lines that tell the user what the job is, and why.
std::vector<std::string> DescribeScriptJob(const ScriptOptions& options, const ScriptFacts& facts,
                                           const JobConfig& job);

// Returns a job name made of the script's file name.
std::string NameOfScript(const std::string& script);

}  // namespace capstan::cli
