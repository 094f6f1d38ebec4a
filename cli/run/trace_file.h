// OpenTrace, WriteTrace, TraceFileOf: open the file of --trace, write it when the process ends, and choose its name.
//
// Kind:   functions.
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"
#include "monitoring/trace.h"

namespace capstan::cli {

// Opens the trace file; null if `path` is empty.
Result<std::unique_ptr<monitoring::Trace>> OpenTrace(const std::string& path, const std::string& process);
// Writes the trace; null: does nothing. Call it after the threads that record have ended. A failure is only logged.
void WriteTrace(monitoring::Trace* trace);

// Returns the file name for a process: trace.json becomes trace.worker-0.json.
std::string TraceFileOf(const std::string& path, const std::string& process);

}  // namespace capstan::cli
