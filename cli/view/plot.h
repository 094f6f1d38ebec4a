// RunPlot: the command capstan plot: a value over the steps of one or several runs, in the terminal or as a picture.
//
// Kind:   function; main's thread.
// Limits: kRunsMax runs; Series' points of each.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace capstan::cli {

struct PlotArguments {
  static constexpr std::size_t kRunsMax = 26;

  std::vector<std::string> runs;  // run directories; empty: the run that is running, or else the newest
  std::string key = "loss";
  std::string to;  // a file; empty: the terminal
};

// Returns the exit code.
int RunPlot(const PlotArguments& arguments);

}  // namespace capstan::cli
