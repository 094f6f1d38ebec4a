#include "monitoring/registry.h"

namespace capstan::monitoring {

std::vector<Family> Registry::Read() const {
  const auto [job, folder, lists] = [this] {
    const std::lock_guard lock(mutex_);
    return std::tuple(job_, folder_, lists_);
  }();
  FamilyTable table;
  Describe(build_, table);
  if (!job.empty())
    table.Gauges("capstan_job_info", "The job that this process is part of.", Merge::kMax)
        .Add(1.0, {{"job_name", job}});
  std::apply(
      [&table](const auto&... list) {
        const auto describe_all = [&table](const auto& structs) {
          for (const auto& metrics : structs) Describe(*metrics, table);
        };
        (describe_all(list), ...);
      },
      lists);
  Describe(ReadProcess(), table);
  if (!folder.empty()) Describe(ReadDisk(folder), table);
  return std::move(table).Take();
}

}  // namespace capstan::monitoring
