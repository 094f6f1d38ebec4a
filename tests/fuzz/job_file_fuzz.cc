// The target reads a job file and overrides, each after a zero byte. Either they are refused at a place, or the job can
// be printed and read back unchanged.
#include <string>
#include <vector>

#include "common/config/job_config.h"
#include "tests/fuzz/target.h"

namespace capstan::fuzz {
namespace {

std::vector<std::string> OverridesIn(std::string_view text) {
  std::vector<std::string> overrides;
  for (std::size_t zero; (zero = text.find('\0')) != text.npos;) {
    text.remove_prefix(zero + 1);
    overrides.emplace_back(text.substr(0, text.find('\0')));
  }
  return overrides;
}

void CheckJobFile(std::string_view text, const std::vector<std::string>& overrides) {
  const Result<JobConfig> config = ParseJobConfig(text, "job.toml", overrides);
  if (!config.ok())
    return RequireReason(config.status(), config.status().message().starts_with("--set ") ? "" : "job.toml");
  const std::string printed = PrintJobConfig(*config);
  const Result<JobConfig> again = ParseJobConfig(printed, "printed.toml");
  Require(again.ok(), "a job that is accepted can be printed and read: " + again.status().message());
  Require(*again == *config, "a job is read as it was printed");
  Require(PrintJobConfig(*again) == printed, "a job is printed as it was read");
  Require(HashJobConfig(*again) == HashJobConfig(*config), "a job keeps its hash");
  Require(DescribeDifference(*config, *again).empty(), "a job does not differ from itself");
}

void RunJobFile(std::string_view text) {
  CheckJobFile(text.substr(0, text.find('\0')), OverridesIn(text));
  CheckJobFile(text, {});
}

const Registered job_file_target({"job_file", RunJobFile});

}  // namespace
}  // namespace capstan::fuzz
