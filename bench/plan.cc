#include "bench/plan.h"

#include <algorithm>
#include <utility>

namespace capstan::bench {
namespace {

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

Status MeasureGroup(const RowGroup& group, int rounds, const Choice& choice, Results* results) {
  const std::vector<bool> needed = NeededBy(group.rows, group.measurements.size());
  std::vector<Figure> figures;
  for (const Row& row : group.rows) figures.push_back({row.name, row.unit, row.limit_name, {}});
  MachineUse use;
  for (int round = 0; round < rounds; ++round) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::vector<Readings> readings, MeasureRound(group, needed, &use));
    for (std::size_t i = 0; i < figures.size(); ++i) figures[i].rounds.push_back(group.rows[i].sample(readings));
  }
  results->use.Add(use);
  for (Figure& figure : figures) {
    figure.others_share = use.OthersShare();
    if (choice.measured) choice.measured(figure);
    results->figures.push_back(std::move(figure));
  }
  return {};
}

}  // namespace

Result<Results> Measure(Plan plan, const Choice& choice) {
  Results results;
  std::string names;
  for (RowGroup& planned : plan.groups) {
    RowGroup group = std::move(planned);  // what its measurements keep, such as processes, ends with the group
    for (const Row& row : group.rows) names += "\n  " + row.name;
    std::erase_if(group.rows, [&](const Row& row) { return row.name.find(choice.only) == row.name.npos; });
    if (group.rows.empty()) continue;
    CAPSTAN_RETURN_IF_ERROR(MeasureGroup(group, plan.rounds, choice, &results));
  }
  if (!results.figures.empty()) return results;
  const std::string lack = choice.left_out.empty() ? "" : " without " + choice.left_out;
  return Invalid("no row has \"" + choice.only + "\" in its name; there are" + lack + ":" + names);
}

}  // namespace capstan::bench
