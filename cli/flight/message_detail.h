// MessageDetail: what `code` and `number` of a recorded message mean, by the message's type.
//
// Kind:   pure function.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/flight/flight_format.h"

namespace capstan::cli {

struct MessageDetail {
  std::string position;  // what the position is: "step", "version" or "clock"; empty: it has none
  std::string number;    // what the number is, such as "blocks"; empty: it has none
  std::string word;      // what the code says, such as "skips"; empty: nothing
};

MessageDetail DetailOf(const FlightRecord& record);

}  // namespace capstan::cli
