// OwnProgram: the program of the user's own that `capstan launch JOB.toml -- PROGRAM ARGS` starts as the workers of a job:
// where it is, and what it is told by its environment.
//
// Kind:   functions of values.
// Fails:  kInvalid: no such program, or a job that has no use for it; what to write instead.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/config/job/forward.h"

namespace capstan::cli {

struct OwnProgram {
  std::string path;                    // of what is run
  std::vector<std::string> words;      // as it was typed, the program first
  std::vector<std::string> variables;  // what each of them finds in its environment, as NAME=value
};

// As main gets them, NAME=value.
std::vector<std::string> VariablesOf(const char* const* environment);

// Finds the program as a shell does.
Result<OwnProgram> FindOwnProgram(const std::vector<std::string>& words, const JobConfig& config,
                                  std::vector<std::string> variables);

// Python finds the package that belongs to the capstan in `binaries`, by a folder in `run_dir` that holds nothing else,
// unless PYTHONPATH leads to one already.
Status AddPythonPackage(const std::string& binaries, const std::string& run_dir, OwnProgram* program);

// All that program `index` of `count` gets: its place in the job, and where the job is.
std::vector<std::string> EnvironmentOf(const OwnProgram& program, const std::string& coordinator,
                                       const std::string& worker, std::uint32_t index, std::uint32_t count);

}  // namespace capstan::cli
