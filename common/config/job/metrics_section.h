// MetricsSection: what [metrics] of the job file holds.
//
// Kind:   values.
#pragma once

#include <string>

namespace capstan {

struct MetricsSection {
  std::string listen = "auto:0";  // host "auto": of the coordinator its own; of others the one that leads to it
  bool operator==(const MetricsSection&) const = default;
};

}  // namespace capstan
