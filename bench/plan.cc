#include "bench/plan.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

namespace capstan::bench {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsAfter(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::vector<bool> NeededBy(const std::vector<Row>& rows, std::size_t measurements) {
  std::vector<bool> needed(measurements, false);
  for (const Row& row : rows) {
    for (const std::size_t index : row.needs) needed[index] = true;
  }
  return needed;
}

// Calls the needed measurements in their order.
Result<std::vector<Readings>> MeasureRound(const RowGroup& group, const std::vector<bool>& needed, MachineUse* use) {
  std::vector<Readings> readings(group.measurements.size());
  for (std::size_t i = 0; i < readings.size(); ++i) {
    if (!needed[i]) continue;
    const UseMeter meter;
    CAPSTAN_ASSIGN_OR_RETURN(readings[i], group.measurements[i]());
    use->Add(meter.UseSoFar());
  }
  return readings;
}

// Measures a group: `rounds` rounds, or fewer if `seconds` are over.
Status MeasureGroup(const RowGroup& group, int rounds, double seconds, const Choice& choice, Results* results) {
  const std::vector<bool> needed = NeededBy(group.rows, group.measurements.size());
  std::vector<Figure> figures;
  for (const Row& row : group.rows) figures.push_back({row.name, row.unit, row.limit_name, {}});
  MachineUse use;
  const Clock::time_point start = Clock::now();
  int round = 0;
  for (; round < rounds && (round < kRoundsMin || SecondsAfter(start) < seconds); ++round) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::vector<Readings> readings, MeasureRound(group, needed, &use));
    for (std::size_t i = 0; i < figures.size(); ++i) figures[i].rounds.push_back(group.rows[i].sample(readings));
  }
  if (round < rounds) results->short_rows += figures.size();
  results->use.Add(use);
  for (Figure& figure : figures) {
    if (use.available > 0.0) figure.others_share = use.OthersShare();
    if (choice.measured) choice.measured(figure);
    results->figures.push_back(std::move(figure));
  }
  return {};
}

// Removes all rows that are not wanted. Returns the names of all rows, each on a line.
std::string KeepWanted(const std::string& only, Plan* plan) {
  std::string names;
  for (RowGroup& group : plan->groups) {
    for (const Row& row : group.rows) names += "\n  " + row.name;
    std::erase_if(group.rows, [&](const Row& row) { return row.name.find(only) == row.name.npos; });
  }
  std::erase_if(plan->groups, [](const RowGroup& group) { return group.rows.empty(); });
  return names;
}

}  // namespace

Result<Results> Measure(Plan plan, const Choice& choice) {
  const std::string names = KeepWanted(choice.only, &plan);
  if (plan.groups.empty()) {
    const std::string left_out = choice.left_out.empty() ? "" : " (left out: " + choice.left_out + ")";
    return Invalid("no row has \"" + choice.only + "\" in its name" + left_out + "; there are:" + names);
  }
  Results results;
  const Clock::time_point start = Clock::now();
  std::size_t groups_left = plan.groups.size();
  for (RowGroup& planned : plan.groups) {
    const RowGroup group = std::move(planned);  // what its measurements keep, such as processes, ends with the group
    const double share = plan.seconds_max > 0.0
                             ? (plan.seconds_max - SecondsAfter(start)) / static_cast<double>(groups_left--)
                             : std::numeric_limits<double>::infinity();
    CAPSTAN_RETURN_IF_ERROR(MeasureGroup(group, plan.rounds, share, choice, &results));
  }
  return results;
}

}  // namespace capstan::bench
