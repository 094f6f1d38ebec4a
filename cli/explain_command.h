// RunExplain: capstan explain, which says what the code of an error or an exit code means.
//
// Kind:   functions; main's thread.
#pragma once

#include <string>

#include "cli/command_line.h"

namespace capstan::cli {

struct ExplainArguments {
  std::string code, output = "text";
  bool all = false;
};

Command DescribeExplain(Command app, ExplainArguments* arguments);
int RunExplain(const ExplainArguments& arguments);

}  // namespace capstan::cli
