// ComparedWithNothing: reports that a test has nothing to compare with on this machine.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace capstan::testing {

// Prints one line, which a run of all tests collects and lists at its end. `what`: the fact that was not checked;
// `why`: what this machine lacks.
inline void ComparedWithNothing(const std::string& what, const std::string& why) {
  std::printf("compared with nothing: %s (%s)\n", what.c_str(), why.c_str());
  std::fflush(stdout);
}

// Whether this machine must have everything that can be installed. A test that lacks something fails there.
inline bool MustHaveAll() {
  const char* const ci = std::getenv("CI");
  return ci != nullptr && std::string_view(ci) == "true";
}

}  // namespace capstan::testing
