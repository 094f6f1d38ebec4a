// The target reads the input as two answers of a coordinator, one line each: its status and its history. It also is the
// name of the run directory and the notice. Whatever they are, the picture of them fits the terminal, and no byte of it
// controls the terminal.
#include "cli/view/job_model.h"

#include <algorithm>

#include "cli/run/json_fields.h"
#include "cli/terminal/columns.h"
#include "cli/view/render.h"
#include "common/base/utf8.h"
#include "tests/fuzz/target.h"

namespace capstan::fuzz {
namespace {

void RequirePicture(const cli::JobModel& model, int columns, int rows) {
  const std::vector<std::string> lines = cli::Render(model, {columns, rows}, {{false, false, true}, "q: quit"});
  Require(lines.size() <= static_cast<std::size_t>(rows), "the picture is not higher than the terminal");
  for (const std::string& line : lines) {
    Require(cli::ColumnsOf(line) <= static_cast<std::size_t>(columns),
            "a line is not wider than the terminal: " + line);
    Require(PrintableLine(line) == line, "a line is printable: " + line);
  }
}

void RunJobModel(std::string_view text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  cli::JobModel model;
  model.source = model.notice = text;  // the name of a directory, and a line of a file in it
  cli::TakeStatus(cli::ParseJson(text.substr(0, end)), &model);
  cli::TakeHistory(cli::ParseJson(text.substr(std::min(end + 1, text.size()))), &model);
  Require(model.workers.size() <= cli::JobModel::kRowsMax && model.events.size() <= cli::JobModel::kRowsMax,
          "rows have a limit");
  for (const auto& [columns, rows] : {std::pair(80, 24), std::pair(40, 60), std::pair(200, 10), std::pair(1, 1)})
    RequirePicture(model, columns, rows);
  cli::ForgetStatus(&model);
  Require(model.state.empty() && model.workers.empty() && !model.figures.step, "a status is forgotten whole");
}

const Registered job_model_target({"job_model", RunJobModel});

}  // namespace
}  // namespace capstan::fuzz
