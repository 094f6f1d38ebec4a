// DrawSystemSecret: a random number of the operating system, which nobody can guess.
//
// Kind:   function; for loops and programs. A core is given a function that draws.
// Fails:  CHECKs that the system has random numbers, as every system does that a build runs on.
#pragma once

#include <sys/random.h>

#include <cstdint>

#include "common/base/status.h"

namespace capstan {

inline std::uint64_t DrawSystemSecret() {
  std::uint64_t value = 0;
  CAPSTAN_CHECK(getrandom(&value, sizeof value, 0) == sizeof value);
  return value;
}

}  // namespace capstan
