// Patience: how many times longer than on an ordinary machine a test may wait before it gives up.
#pragma once

#include <algorithm>
#include <cstdlib>

namespace capstan::testing {

// Returns the whole number in an environment variable, at least 1; 1 if the variable is not set.
inline int FactorFromEnvironment(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? 1 : std::max(1, std::atoi(text));
}

// Returns CAPSTAN_TEST_PATIENCE (set by slow machines) times CAPSTAN_TEST_SLOWDOWN (set by the sanitizers' presets).
inline int Patience() {
  return FactorFromEnvironment("CAPSTAN_TEST_PATIENCE") * FactorFromEnvironment("CAPSTAN_TEST_SLOWDOWN");
}

}  // namespace capstan::testing
