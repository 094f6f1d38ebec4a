#include "bench/figure_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace capstan::bench {
namespace {

std::string Number(const char* format, double number) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), format, number);
  return text.data();
}

constexpr const char* kValueFormat = "%.4g";
constexpr const char* kRatioFormat = "%.3f";

// Returns nothing if all rounds have the same number, or if there is only one round.
std::string Range(const char* format, const Spread& spread) {
  if (spread.least == spread.most) return "";
  return "[" + Number(format, spread.least) + ".." + Number(format, spread.most) + "]";
}

std::string WithRange(const char* format, const Spread& spread) {
  const std::string range = Range(format, spread);
  return Number(format, spread.median) + (range.empty() ? "" : " ") + range;
}

std::string LimitOf(const Figure& figure) {
  return WithRange(kValueFormat, figure.Limit()) + " (" + figure.limit_name + ")";
}

constexpr std::size_t kColumns = 7;
using Cells = std::array<std::string, kColumns>;

Cells CellsOf(const Figure& figure) {
  const Spread value = figure.Value();
  Cells cells = {figure.name, Number(kValueFormat, value.median), Range(kValueFormat, value), figure.unit, "-"};
  if (!figure.has_limit()) return cells;
  const Spread ratio = figure.Ratio();
  cells[4] = Number(kRatioFormat, ratio.median);
  cells[5] = Range(kRatioFormat, ratio);
  cells[6] = LimitOf(figure);
  return cells;
}

std::string Percent(double share) { return Number("%.0f", 100 * share) + " %"; }

// Returns the units of the figures that a busy machine does not spoil, as "s/GB and bytes/parameter".
std::string UnitsThatHold(const std::vector<Figure>& figures) {
  std::vector<std::string> units;
  for (const Figure& figure : figures) {
    const bool is_known = std::find(units.begin(), units.end(), figure.unit) != units.end();
    if (HoldsOnBusyMachine(figure) && !is_known) units.push_back(figure.unit);
  }
  std::string text;
  for (const std::string& unit : units) text += (text.empty() ? "" : " and ") + unit;
  return text;
}

}  // namespace

std::string LineOf(const Figure& figure) {
  std::string line = figure.name + ": " + WithRange(kValueFormat, figure.Value()) + " " + figure.unit;
  if (figure.has_limit()) line += ", " + WithRange(kRatioFormat, figure.Ratio()) + " of " + LimitOf(figure);
  return line;
}

std::string TableOf(const std::vector<Figure>& figures) {
  std::vector<Cells> lines = {{"name", "median", "[least..most]", "unit", "ratio", "[least..most]", "limit"}};
  for (const Figure& figure : figures) lines.push_back(CellsOf(figure));
  std::array<std::size_t, kColumns> widths{};
  for (const Cells& cells : lines) {
    for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], cells[i].size());
  }
  constexpr std::array<bool, kColumns> kIsNumber = {false, true, false, false, true, false, false};
  std::string table;
  for (const Cells& cells : lines) {
    std::string line;
    for (std::size_t i = 0; i < kColumns; ++i) {
      const std::string space(widths[i] - cells[i].size(), ' ');
      const bool follows_its_median = i == 2 || i == 5;
      line += (i == 0 ? "" : follows_its_median ? " " : "  ") + (kIsNumber[i] ? space + cells[i] : cells[i] + space);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    table += line + "\n";
  }
  return table;
}

std::string ShortRowsLine(const Results& results) {
  return std::to_string(results.short_rows) + " of " + std::to_string(results.figures.size()) +
         " rows have fewer rounds than planned, because time was over.";
}

bool HoldsOnBusyMachine(const Figure& figure) { return figure.unit == "s/GB" || figure.unit == "bytes/parameter"; }

std::string OthersLine(const MachineUse& use, const std::vector<Figure>& figures) {
  if (use.available <= 0.0) return "How much of this machine others took is not known: /proc/stat has no times.";
  std::string line = "While this was measured, others took " + Percent(use.OthersShare()) +
                     " of the cores' time (other processes " + Percent(use.ProcessesShare()) + ", the host " +
                     Percent(use.HostShare()) + ").";
  if (use.OthersShare() <= kOthersShareMax) return line;
  line += " Above " + Percent(kOthersShareMax) + " the machine is too busy to judge. ";
  const std::string units = UnitsThatHold(figures);
  const bool all_hold = std::all_of(figures.begin(), figures.end(), HoldsOnBusyMachine);
  if (all_hold) return line + "These rows (" + units + ") still hold: they count processor time or memory.";
  line += units.empty() ? "No row here still holds: others also take of a clock's time, and of the memory's bandwidth."
                        : "Only rows in " + units + " still hold: they count processor time or memory.";
  return line + " Stop what else runs, and measure again; --only TEXT measures a few rows.";
}

}  // namespace capstan::bench
