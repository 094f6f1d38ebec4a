// FirstSeed: the first of the seeds from which a test draws random cases.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "common/status.h"

namespace capstan::testing {

// CAPSTAN_TEST_SEED, a decimal number: a run of all tests sets it, so that every change tries cases of its own. Without
// it: 0. Prints the number, with which the same cases run again.
inline std::uint64_t FirstSeed() {
  const char* const text = std::getenv("CAPSTAN_TEST_SEED");
  char* end = nullptr;
  const std::uint64_t seed = text == nullptr ? 0 : std::strtoull(text, &end, 10);
  CAPSTAN_CHECK(text == nullptr || (end != text && *end == '\0'));
  std::printf("CAPSTAN_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

}  // namespace capstan::testing
