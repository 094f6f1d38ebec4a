#include "cli/report/job_lines.h"

#include "cli/report/progress.h"
#include "cli/report/sha256_file.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job_config.h"

namespace capstan::cli {
namespace {

std::string Count(std::uint64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace

std::string SizeText(const JobConfig& config) {
  const bool is_default = config.job.slots == DefaultSlots(config.job.global_batch);
  const bool is_open = config.job.steps == kOpenEndedSteps;
  return (is_open ? "steps until its programs end" : Count(config.job.steps, "step")) + ", " +
         Count(config.job.slots, "slot") + (is_default ? " (the default)" : "");
}

std::string IdleWorkersText(const JobConfig& config) {
  const std::uint32_t workers = config.cluster.workers, slots = config.job.slots;
  if (workers <= slots) return "";
  const std::string change =
      workers <= config.job.global_batch ? "set job.slots to " + std::to_string(workers) + " or " : "set ";
  return std::to_string(workers - slots) + " of " + std::to_string(workers) +
         " workers will have nothing to compute: " + change + "cluster.workers to " + std::to_string(slots) +
         "; another number of slots gives other bits";
}

std::vector<std::string> EndLines(const Progress& progress, const std::string& weights_path) {
  std::vector<std::string> lines;
  if (std::string warning = progress.Divergence(); !warning.empty()) lines.push_back("warning: " + warning);
  const Result<std::string> sum = Sha256OfFile(weights_path);
  lines.push_back("weights: " + weights_path + (sum.ok() ? "  sha256 " + *sum : " (" + sum.status().message() + ")"));
  return lines;
}

}  // namespace capstan::cli
