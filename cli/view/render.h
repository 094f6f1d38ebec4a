// Render: the picture of a job that `capstan top` shows: progress, figures, the loss, workers, shards and events.
//
// Kind:   pure function.
// Limits: at most `rows` lines of at most `columns` columns. In little room, events are left out first, then the
//         curve, then rows of workers and shards, then figures.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal/terminal_look.h"
#include "cli/view/job_model.h"

namespace capstan::cli {

struct RenderOptions {
  TerminalLook look;
  std::string keys;  // the last line, which says what keys do; empty: there is none
};

std::vector<std::string> Render(const JobModel& model, const TerminalSize& size, const RenderOptions& options);

}  // namespace capstan::cli
