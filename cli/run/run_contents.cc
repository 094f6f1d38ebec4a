#include "cli/run/run_contents.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <variant>
#include <vector>

#include "common/base/file_text.h"
#include "common/base/rotated_file.h"
#include "common/config/job/job_section.h"
#include "common/config/job_config.h"
#include "common/config/toml_document.h"
#include "server/storage/file_coordinator_log.h"

namespace capstan::cli {
namespace {

namespace fs = std::filesystem;
using server::LogRecord;

constexpr std::size_t kPidCharactersMax = 20;
// Files that a job replaces when it begins.
constexpr std::array kReplaced = {"job.toml", "endpoints.json", "go-on.txt"};

struct Found {
  RunContents contents = RunContents::kNothing;
  std::string what;  // for messages; empty for kNothing
};

bool IsThere(const std::string& path) {
  std::error_code error;
  return fs::symlink_status(path, error).type() != fs::file_type::not_found;
}

bool HasBytes(const std::string& path) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  return !error && size > 0;
}

bool AcknowledgesDurably(const std::vector<LogRecord>& records) {
  return std::any_of(records.begin(), records.end(), [](const LogRecord& record) {
    const auto* const job = std::get_if<server::JobRecord>(&record);
    if (job == nullptr) return false;
    const Result<JobConfig> config = ParseJobConfig(job->job_file, "the job file in the log");
    return !config.ok() || config->job.acknowledge == Acknowledge::kDurable;
  });
}

Found InLog(const std::vector<LogRecord>& records) {
  Found found;
  for (const LogRecord& record : records) {
    if (const auto* const manifest = std::get_if<server::ManifestRecord>(&record)) {
      return {RunContents::kResults, "the snapshot of version " + std::to_string(manifest->id.version.value)};
    }
    if (std::holds_alternative<server::DoneRecord>(record)) return {RunContents::kResults, "a run that is done"};
    if (const auto* const recover = std::get_if<server::RecoverRecord>(&record)) {
      found = {RunContents::kBegun, "a job that began, in generation " + std::to_string(recover->generation.value)};
    }
  }
  if (found.contents == RunContents::kBegun && AcknowledgesDurably(records)) found.contents = RunContents::kResults;
  return found;
}

// Finds what the folder contains. Ignores a log that cannot be read; ClearFailedStart reports it.
Found Look(const std::string& run_dir) {
  if (IsThere(run_dir + kImportedMark)) return {RunContents::kResults, "imported weights, in snapshots/"};
  const std::string metrics = run_dir + "/metrics.jsonl";
  if (HasBytes(metrics) || !FormerFiles(metrics).empty()) return {RunContents::kResults, "steps, in metrics.jsonl"};
  if (HasBytes(run_dir + "/final.safetensors")) return {RunContents::kResults, "weights, in final.safetensors"};
  const auto records = server::FileCoordinatorLog::Look(run_dir + "/snapshots/coordinator.log");
  Found found = records.ok() ? InLog(*records) : Found();
  if (!found.what.empty()) found.what += ", by snapshots/coordinator.log";
  return found;
}

Status HoldsRunAlready(const std::string& run_dir, const std::string& what) {
  return Invalid("the run directory " + run_dir + " holds a run already (" + what +
                 "); give another --run-dir, remove it, or go on with it by --resume");
}

Status InTheWay(const std::string& path, const std::string& why) {
  return Invalid(path + " is in the way of a run directory: " + why + "; give another --run-dir, or move it elsewhere");
}

bool IsNumber(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Whether the folder has a shard's name, and either a server made it (the file OWNER shows that) or it is empty: users
// may link such a folder to another disk.
bool IsShardFolder(const fs::path& path) {
  constexpr std::string_view kPrefix = "shard-";
  const std::string name = path.filename();
  std::error_code error;
  if (!name.starts_with(kPrefix) || !IsNumber(std::string_view(name).substr(kPrefix.size()))) return false;
  return fs::is_directory(path, error) && (IsThere(path / "OWNER") || fs::is_empty(path, error));
}

bool IsOurs(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename();
  std::error_code error;
  const bool is_file = fs::is_regular_file(entry.symlink_status(error));
  if (name == "coordinator.log" || name == "coordinator.log.partial" || name == "imported") return is_file;
  return IsShardFolder(entry.path());
}

Status CheckSnapshotFolder(const std::string& folder) {
  std::error_code error;
  if (!IsThere(folder)) return {};
  if (!fs::is_directory(folder, error)) return InTheWay(folder, "it is no folder");
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (!IsOurs(*entry))
      return InTheWay(entry->path(), "a job keeps its snapshots in this folder, and did not make it");
  }
  return error ? Unreachable("cannot read " + folder + ": " + error.message()) : Status();
}

// Whether this job file is as capstan prints it, or empty or missing. Then it has no comments of the user's that could
// be lost.
bool IsPrintedJob(const std::string& path) {
  if (!IsThere(path)) return true;
  const Result<std::string> text = ReadFileText(path, kTomlBytesMax + 1);
  if (!text.ok() || text->empty()) return text.ok();
  const Result<JobConfig> config = ParseJobConfig(*text, path);
  return config.ok() && PrintJobConfig(*config) == *text;
}

// Fails if a job would replace a file that is not capstan's. A file named lock shows that a job was started here
// before, if it is empty or holds a process id.
Status CheckReplacedFiles(const std::string& run_dir) {
  const std::string lock = run_dir + "/lock", job = run_dir + "/job.toml";
  std::error_code error;
  const bool had_start = fs::is_regular_file(fs::symlink_status(lock, error));
  if (!had_start && IsThere(lock)) return InTheWay(lock, "it is no file of capstan's");
  if (had_start) {
    const Result<std::string> read = ReadFileText(lock, kPidCharactersMax + 1);
    const std::string holder = read.ok() ? *read : "";  // RunDirectory says why it cannot
    if (holder.size() > kPidCharactersMax || !(holder.empty() || IsNumber(holder))) {
      return InTheWay(lock, "it is no file of capstan's");
    }
    return IsPrintedJob(job) ? Status() : InTheWay(job, "it would be replaced, and is not as capstan prints it");
  }
  for (const char* name : kReplaced) {
    const std::string path = run_dir + "/" + name;
    if (IsThere(path)) return InTheWay(path, "it would be replaced, and no job has run in this folder");
  }
  return {};
}

}  // namespace

RunContents FindRunContents(const std::string& run_dir) { return Look(run_dir).contents; }

bool HoldsRun(const std::string& run_dir) { return FindRunContents(run_dir) != RunContents::kNothing; }

Status CheckNothingForeign(const std::string& run_dir) {
  if (const Found found = Look(run_dir); found.contents != RunContents::kNothing) {
    const bool held_before = IsThere(run_dir + "/lock");  // if so, the caller that takes the lock reports the contents
    return held_before ? Status() : HoldsRunAlready(run_dir, found.what);
  }
  CAPSTAN_RETURN_IF_ERROR(CheckReplacedFiles(run_dir));
  return CheckSnapshotFolder(run_dir + "/snapshots");
}

Status ClearFailedStart(const std::string& run_dir) {
  if (const Found found = Look(run_dir); found.contents != RunContents::kNothing) {
    return HoldsRunAlready(run_dir, found.what);
  }
  const std::string log = run_dir + "/snapshots/coordinator.log";
  if (!IsThere(log)) return {};
  if (const Status status = server::FileCoordinatorLog::Look(log).status(); !status.ok()) {
    return Invalid("the run directory " + run_dir + " may hold a run, and its log cannot be read: " + status.message() +
                   "; give another --run-dir, or move this one away");
  }
  std::error_code error;
  fs::remove(log, error);
  return error ? Unreachable("cannot remove " + log + ": " + error.message()) : Status();
}

}  // namespace capstan::cli
