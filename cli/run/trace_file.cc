#include "cli/run/trace_file.h"

#include <filesystem>

#include "cli/run/process.h"

namespace capstan::cli {

Result<std::unique_ptr<monitoring::Trace>> OpenTrace(const std::string& path, const std::string& process) {
  if (path.empty()) return std::unique_ptr<monitoring::Trace>();
  return monitoring::Trace::Open(path, process);
}

void WriteTrace(monitoring::Trace* trace) {
  if (trace == nullptr) return;
  if (const Status status = trace->Write(); !status.ok()) Print(Severity::kWarning, status.message());
}

std::string TraceFileOf(const std::string& path, const std::string& process) {
  const std::filesystem::path whole(path);
  return (whole.parent_path() / (whole.stem().string() + "." + process + whole.extension().string())).string();
}

}  // namespace capstan::cli
