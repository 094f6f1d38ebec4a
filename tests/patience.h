// TestPatience: how many times as long as usual a test may wait, where programs are slower than those that people use.
#pragma once

#include <algorithm>
#include <cstdlib>

namespace capstan {

inline int TestPatience() {
  const char* const times = std::getenv("CAPSTAN_TEST_PATIENCE");
  return times ? std::max(1, std::atoi(times)) : 1;
}

}  // namespace capstan
