// OpenTrace, WriteTrace: the trace file of --trace, from the command line to the end of the process.
//
// Kind:   functions.
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"
#include "monitoring/trace.h"

namespace capstan::cli {

// Null if `path` is empty.
Result<std::unique_ptr<monitoring::Trace>> OpenTrace(const std::string& path, const std::string& process);
// Call it after the threads that record have ended. It only logs a failure: a process does not fail for its trace.
void WriteTrace(monitoring::Trace* trace);

// A file name per process: trace.json becomes trace.worker-0.json.
std::string TraceFileOf(const std::string& path, const std::string& process);

}  // namespace capstan::cli
