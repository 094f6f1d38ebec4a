// The target reads the input as lines of a run's metrics.jsonl. A line that is no step is skipped, and the text shown
// for the steps is short.
#include "cli/report/progress.h"

#include <algorithm>

#include "tests/fuzz/target.h"

namespace capstan::fuzz {
namespace {

constexpr std::uint64_t kSteps = 100;
constexpr std::size_t kShownBytesMax = 300;  // a line on a terminal, with the longest numbers

void RunProgress(std::string_view text) {
  cli::Progress progress("", kSteps);
  std::uint64_t lines = 0;
  std::vector<std::string> kept;
  for (std::size_t end; !text.empty(); text.remove_prefix(end)) {
    end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::uint64_t before = progress.steps_done();
    const std::size_t kept_before = kept.size();
    progress.AddLine(text.substr(0, end), &kept);
    ++lines;
    Require(progress.steps_done() != 0 || before == 0, "a step that is done stays done");
    Require(kept.size() <= kept_before + 1, "a line is one validation at most");
  }
  Require(progress.steps_skipped() <= lines, "a line is one skipped step at most");
  const std::string shown = progress.Line();
  Require(shown.empty() == (progress.steps_done() == 0), "steps are shown as soon as there are any");
  Require(shown.size() <= kShownBytesMax, "the line is short: " + shown);
  Require(shown.find('-') == shown.npos || shown.find("loss -") != shown.npos,
          "no count or time is negative: " + shown);
  for (const std::string& line : kept) Require(line.size() <= 2 * kShownBytesMax, "a validation is short: " + line);
}

const Registered progress_lines_target({"progress", RunProgress});

}  // namespace
}  // namespace capstan::fuzz
