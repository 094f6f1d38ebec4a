// ProgramCalls: the programs that make up a job, and the arguments with which the launcher calls them.
//
// Kind:   immutable. The same call serves every restart of a process.
// Why:    which processes a job has is fixed when it starts, so this is kept apart from watching them.
#pragma once

#include <string>
#include <vector>

#include "cli/launch/child_process.h"
#include "cli/launch/own_program.h"
#include "cli/run/exposure.h"
#include "cli/run/run_directory.h"
#include "common/config/job/forward.h"
#include "common/keys/principal.h"

namespace capstan::cli {

class ProgramCalls {
 public:
  static constexpr char kCoordinator[] = "coordinator";  // the name of the coordinator's process

  // `binaries`: the folder of capstan-server and capstan-worker. `trace`: servers and workers write traces to this file
  // name with their own name added; empty: they write none. `keys`: the folder with the job's key files; empty: it has
  // no keys. `config` and `directory` outlive this object.
  ProgramCalls(const JobConfig& config, const RunDirectory& directory, std::string binaries, std::string trace,
               Plaintext plaintext, std::string keys);

  // `listen`: address on which the coordinator listens.
  ProgramCall Coordinator(const std::string& listen, RunBegin begin) const;
  // The following take the address at which the coordinator is reached.
  std::vector<ProgramCall> Servers(const std::string& coordinator) const;
  std::vector<ProgramCall> Workers(const std::string& coordinator) const;
  // Returns one call of the user's own program for each worker of the job.
  std::vector<ProgramCall> OwnPrograms(const OwnProgram& program, const std::string& coordinator) const;
  // As OwnPrograms, for programs that start before their job and ask for it at the broker with this path.
  std::vector<ProgramCall> EarlyPrograms(const OwnProgram& program, const std::string& broker) const;

 private:
  std::vector<ProgramCall> Programs(const OwnProgram& program, WorkerPlace place) const;
  ProgramCall Ours(const std::string& name, Role role, std::vector<std::string> arguments) const;
  std::vector<std::string> TraceArguments(const std::string& name) const;

  const JobConfig& config_;
  const RunDirectory& directory_;
  const std::string binaries_, trace_;
  const Plaintext plaintext_;
  const std::string keys_;
};

}  // namespace capstan::cli
