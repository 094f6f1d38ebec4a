// Patience: how many times longer than on an ordinary machine a test may wait before it gives up.
#pragma once

#include <algorithm>
#include <cstdlib>

namespace capstan::testing {

// CAPSTAN_TEST_PATIENCE, a whole number. Runs under sanitizers and on slow machines set it; without it: 1.
inline int Patience() {
  const char* const text = std::getenv("CAPSTAN_TEST_PATIENCE");
  return text == nullptr ? 1 : std::max(1, std::atoi(text));
}

}  // namespace capstan::testing
