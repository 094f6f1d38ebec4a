#include "cli/view/render.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "cli/report/progress.h"
#include "cli/terminal/columns.h"
#include "cli/view/chart.h"
#include "common/base/utf8.h"

namespace capstan::cli {
namespace {

constexpr std::size_t kWrapMax = 3;   // lines that a sentence may take
constexpr std::size_t kAsideMax = 2;  // workers that are set aside with their reason
constexpr std::size_t kChartRowsUsual = 4, kChartRowsMost = 14, kEventsUsual = 5;
constexpr char kBold[] = "\033[1m", kYellow[] = "\033[1;33m", kRed[] = "\033[1;31m", kReset[] = "\033[0m";

using Lines = std::vector<std::string>;

std::string Formatted(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

// Cuts a text at blanks into lines of at most `columns`.
Lines Wrap(std::string_view text, std::size_t columns) {
  Lines lines(1);
  while (!text.empty()) {
    const std::size_t blank = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, blank);
    text.remove_prefix(std::min(blank + 1, text.size()));
    const std::size_t used = ColumnsOf(lines.back());
    if (used > 0 && used + 1 + ColumnsOf(word) > columns) {
      if (lines.size() == kWrapMax) {
        lines.back() = CutToColumns(lines.back() + " " + std::string(word) + " " + std::string(text), columns);
        return lines;
      }
      lines.emplace_back();
    }
    lines.back() += (lines.back().empty() ? "" : " ") + std::string(word);
  }
  for (std::string& line : lines) line = CutToColumns(line, columns);
  return lines;
}

// Puts parts one behind the other, two blanks apart, into as many lines as they need.
Lines Flow(const Lines& parts, std::size_t columns) {
  Lines lines;
  for (const std::string& part : parts) {
    if (lines.empty() || ColumnsOf(lines.back()) + 2 + ColumnsOf(part) > columns) {
      lines.push_back(CutToColumns(part, columns));
    } else {
      lines.back() += "  " + part;
    }
  }
  return lines;
}

std::string TitleLine(const JobModel& model, std::size_t columns) {
  const std::string title = PrintableLine(model.job.empty() ? model.state : model.job + ": " + model.state);
  const std::string name = PrintableLine(model.source);
  const std::size_t used = ColumnsOf(title), source = ColumnsOf(name);
  if (used + 2 + source > columns) return CutToColumns(title, columns);
  return title + std::string(columns - used - source, ' ') + name;
}

std::string ProgressLine(const JobFigures& figures, std::size_t columns) {
  if (!figures.step) return "no step yet";
  std::string text = "step " + std::to_string(*figures.step);
  const std::uint64_t steps = figures.steps.value_or(0);
  if (steps > 0) text += " of " + std::to_string(steps);
  std::string rest;
  if (figures.seconds_left) rest += "  " + Duration(std::max(*figures.seconds_left, 0.0)) + " left";
  if (steps == 0) return CutToColumns(text + rest, columns);
  const double part = std::min(static_cast<double>(*figures.step) / static_cast<double>(steps), 1.0);
  rest = Formatted("%3.0f %%", std::floor(part * 100)) + rest;
  const std::size_t used = text.size() + rest.size() + 4;  // with brackets and blanks
  if (used + 5 > columns) return CutToColumns(text + "  " + rest, columns);
  const std::size_t bar = std::min<std::size_t>(columns - used, 40);
  const auto full = static_cast<std::size_t>(part * static_cast<double>(bar));
  return text + " [" + std::string(full, '#') + std::string(bar - full, '.') + "] " + rest;
}

Lines FigureParts(const JobModel& model) {
  const JobFigures& figures = model.figures;
  Lines parts;
  const auto add = [&](const char* before, const std::optional<double>& value, const char* behind) {
    if (value) parts.push_back(before + Formatted("%.4g", *value) + behind);
  };
  add("loss ", figures.loss, "");
  add("validation ", figures.validation_loss, "");
  add("lr ", figures.learning_rate, "");
  add("grad norm ", figures.grad_norm, "");
  add("", figures.samples_per_second, " samples/s");
  add("", figures.step_seconds, " s/step");
  if (model.snapshot) {
    parts.push_back("snapshot " + std::to_string(model.snapshot->version) + ", " +
                    Duration(std::max(model.snapshot->age_seconds, 0.0)) + " ago");
  }
  return parts;
}

// Returns as many parts, two blanks apart, as fit into a line.
std::string Lane(const Lines& parts, std::size_t columns) {
  std::string lane;
  for (const std::string& part : parts) {
    if (!lane.empty() && ColumnsOf(lane) + 2 + ColumnsOf(part) > columns) break;
    if (!part.empty()) lane += (lane.empty() ? "" : "  ") + part;
  }
  while (lane.ends_with(' ')) lane.pop_back();
  return CutToColumns(lane, columns);
}

template <class Row>
std::size_t Widest(const std::vector<Row>& rows, std::string Row::*field, std::size_t most) {
  std::size_t widest = 0;
  for (const Row& row : rows) widest = std::max(widest, ColumnsOf(row.*field));
  return std::min(widest, most);
}

Lines Lanes(const JobModel& model, std::size_t columns) {
  Lines lanes;
  const std::size_t most = std::max<std::size_t>(columns / 3, 8);
  const std::size_t name = std::max(Widest(model.workers, &JobModel::Worker::name, most),
                                    Widest(model.shards, &JobModel::Shard::name, most));
  const std::size_t state =
      std::max(Widest(model.workers, &JobModel::Worker::state, 12), Widest(model.shards, &JobModel::Shard::state, 12));
  for (const JobModel::Worker& worker : model.workers) {
    Lines parts = {PadToColumns(worker.name, name), PadToColumns(worker.state, state)};
    if (worker.step) parts.push_back("step " + std::to_string(*worker.step));
    if (worker.lag) parts.push_back("lag " + ShortNumber(*worker.lag));
    parts.push_back(worker.time);
    if (!worker.slots.empty()) parts.push_back("slots " + worker.slots);
    if (!worker.last_heard.empty()) parts.push_back("heard " + worker.last_heard);
    lanes.push_back(Lane(parts, columns));
  }
  for (const JobModel::Shard& shard : model.shards) {
    const std::string busy = shard.busy ? Formatted("%.0f", 100 * std::clamp(*shard.busy, 0.0, 1.0)) + " % busy" : "";
    lanes.push_back(
        Lane({PadToColumns(shard.name, name), PadToColumns(shard.state, state), busy, shard.address}, columns));
  }
  return lanes;
}

// Returns the lanes that fit into `rows`; the last line counts those that do not.
Lines SomeLanes(const JobModel& model, std::size_t columns, std::size_t rows) {
  Lines lanes = Lanes(model, columns);
  const std::uint64_t all = model.worker_count + model.shard_count;
  if (lanes.size() <= rows && lanes.size() == all) return lanes;
  if (rows == 0) return {};
  lanes.resize(std::min(lanes.size(), rows - 1));
  lanes.push_back(CutToColumns("and " + std::to_string(all - lanes.size()) + " more workers and shards", columns));
  return lanes;
}

Lines EventLines(const JobModel& model, std::size_t columns, std::size_t rows) {
  Lines lines;
  const std::size_t count = std::min(rows, model.events.size());
  for (std::size_t i = model.events.size() - count; i < model.events.size(); ++i) {
    const JobModel::Event& event = model.events[i];
    const std::string step = event.step ? "step " + std::to_string(*event.step) : "";
    std::string line = event.when;
    for (const std::string& part : {step, event.text}) line += (line.empty() || part.empty() ? "" : "  ") + part;
    lines.push_back(CutToColumns(line, columns));
  }
  return lines;
}

// The lines above the curve, without colors: the most important first.
struct Head {
  std::size_t columns;
  Lines lines{};
  std::vector<const char*> colors{};  // of each line; null: none

  void Add(const Lines& more, const char* color) {
    for (const std::string& line : more) {
      lines.push_back(CutToColumns(line, columns));
      colors.push_back(color);
    }
  }
};

Head HeadOf(const JobModel& model, std::size_t columns) {
  Head head{columns};
  head.Add({TitleLine(model, columns)}, kBold);
  if (!model.notice.empty()) head.Add(Wrap(PrintableLine(model.notice), columns), kRed);
  head.Add({ProgressLine(model.figures, columns)}, nullptr);
  if (!model.failure.empty()) head.Add(Wrap("failed: " + model.failure, columns), kRed);
  if (!model.waiting.empty()) head.Add(Wrap("waiting: " + model.waiting, columns), kYellow);
  head.Add(Flow(FigureParts(model), columns), nullptr);
  for (std::size_t i = 0; i < std::min(model.aside.size(), kAsideMax); ++i)
    head.Add(Wrap(model.aside[i], columns), kYellow);
  if (!model.bound_by.empty()) head.Add(Wrap("bound by: " + model.bound_by, columns), nullptr);
  return head;
}

// How many rows each part below the head gets.
struct Rows {
  std::size_t chart = 0, lanes = 0, events = 0;
};

Rows Share(std::size_t rows, std::size_t lanes, std::size_t events, bool has_curve) {
  Rows share;
  share.chart = has_curve && rows >= 2 * kChartRowsUsual ? std::max(kChartRowsUsual, rows / 3) : 0;
  share.chart = std::min(share.chart, kChartRowsMost);
  std::size_t left = rows - share.chart;
  const std::size_t kept = left >= 3 * kEventsUsual ? std::min(events, kEventsUsual) : 0;
  share.lanes = std::min(lanes, left - kept);
  left -= share.lanes;
  share.events = std::min(events, left);
  left -= share.events;
  if (share.chart > 0) share.chart = std::min(share.chart + left, kChartRowsMost);
  return share;
}

}  // namespace

std::vector<std::string> Render(const JobModel& model, const TerminalSize& size, const RenderOptions& options) {
  const auto columns = static_cast<std::size_t>(std::max(size.columns, 1));
  auto rows = static_cast<std::size_t>(std::max(size.rows, 1));
  const bool has_keys = !options.keys.empty() && rows >= 5;
  if (has_keys) --rows;
  const Head head = HeadOf(model, columns);
  Lines lines;
  for (std::size_t i = 0; i < head.lines.size() && lines.size() < rows; ++i) {
    const bool colored = options.look.colors && head.colors[i] != nullptr;
    const std::string text = options.look.utf8 ? head.lines[i] : AsciiOf(head.lines[i]);
    lines.push_back(colored ? head.colors[i] + text + kReset : text);
  }
  const std::uint64_t lanes = model.worker_count + model.shard_count;
  const Rows share = Share(rows - lines.size(), lanes, model.events.size(), !model.loss.empty());
  const auto add = [&](const Lines& more) {
    for (const std::string& line : more) lines.push_back(options.look.utf8 ? line : AsciiOf(line));
  };
  if (share.chart > 0) {
    add(DrawChart({&model.loss}, {columns, share.chart, options.look.utf8 ? Glyphs::kBraille : Glyphs::kAscii,
                                  options.look.colors, "loss by step"}));
  }
  add(SomeLanes(model, columns, share.lanes));
  add(EventLines(model, columns, share.events));
  if (has_keys) lines.push_back(CutToColumns(options.keys, columns));
  return lines;
}

}  // namespace capstan::cli
