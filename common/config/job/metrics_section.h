// MetricsSection: section [metrics] of the job file.
//
// Kind:   values.
#pragma once

#include <string>

namespace capstan {

struct MetricsSection {
  std::string listen = "auto:0";  // host "auto": the coordinator's host; in other processes their address towards it
  bool operator==(const MetricsSection&) const = default;
};

}  // namespace capstan
