// RunForOutput: runs a program and returns what it prints.
//
// Kind:   blocks the caller until the program ends or its time is up.
// Limits: kProgramOutputMax bytes of output; the rest is thrown away. The program is killed when its time is up.
// Fails:  kInvalid: there is no such program. kTimeout: it has not ended in time. kRefused: it failed; the message ends
//         with what it printed.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace capstan::cli {

inline constexpr std::size_t kProgramOutputMax = std::size_t{64} << 10;

// `words`: the program, which is searched for in PATH, and its arguments. Returns stdout and stderr together.
Result<std::string> RunForOutput(const std::vector<std::string>& words, std::chrono::seconds time);

}  // namespace capstan::cli
