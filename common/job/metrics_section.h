// MetricsSection: what [metrics] of the job file holds.
//
// Kind:   values.
#pragma once

#include <string>

namespace capstan {

struct MetricsSection {
  std::string listen = "127.0.0.1:0";
  bool operator==(const MetricsSection&) const = default;
};

}  // namespace capstan
