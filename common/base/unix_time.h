// UnixTime: the time of day, in seconds since 1970 in UTC.
//
// Kind:   function.
#pragma once

#include <chrono>

namespace capstan {

inline double UnixTime() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace capstan
