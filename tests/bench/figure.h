// Figure: one line of a benchmark: what was measured, beside a limit measured in the same run.
//
// Kind:   values.
// Why:    on machines shared with others a bare number says little; a ratio to what the machine gave just now does.
#pragma once

#include "cli/bench_command.h"

namespace capstan::bench {

using Figure = cli::BenchFigure;  // named bench/what/size

}  // namespace capstan::bench
