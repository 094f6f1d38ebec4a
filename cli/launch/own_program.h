// OwnProgram: the user's own program that `capstan launch` starts as the workers of a job, from the words after "--" or
// from the job file's worker.command: its path, arguments and environment.
//
// Kind:   functions; AddPythonPackage creates a folder in the run directory.
// Fails:  kInvalid: no such program, or a job that cannot use it. kUnreachable: that folder cannot be created.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/config/job/forward.h"

namespace capstan::cli {

struct OwnProgram {
  std::string path;                    // path of the file that is executed
  std::vector<std::string> words;      // as typed, the program first
  std::vector<std::string> variables;  // environment of each process, as NAME=value
};

// Copies the variables of an environment such as `environ`, each as NAME=value.
std::vector<std::string> VariablesOf(const char* const* environment);

// Finds the program as a shell would, in PATH or by its path. Fails if the job's workers are capstan's own.
Result<OwnProgram> FindOwnProgram(const std::vector<std::string>& words, const JobConfig& config,
                                  std::vector<std::string> variables);

// Makes Python find the capstan package that belongs to the programs in `binaries`: adds a folder in `run_dir` with a
// link to the package to PYTHONPATH. Does nothing if PYTHONPATH leads to a capstan package already, or there is none.
Status AddPythonPackage(const std::string& binaries, const std::string& run_dir, OwnProgram* program);

// The place of a program of the user's own in a job, which its environment tells it.
struct WorkerPlace {
  std::string coordinator = {};  // its address; empty: the job does not exist yet, and the launcher has a broker
  std::string broker = {};       // the path of the broker's socket (script_broker.h)
  std::string key_file = {};     // empty: the job has no keys
  std::string worker = {};       // its name
  std::uint32_t index = 0, count = 1;
};
// Returns the environment of a program with its place in the job.
std::vector<std::string> EnvironmentOf(const OwnProgram& program, const WorkerPlace& place);

}  // namespace capstan::cli
