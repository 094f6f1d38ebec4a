// PrometheusText: the metrics of a registry, as Prometheus reads them.
//
// Kind:   function; reads all metrics now.
#pragma once

#include <string>

#include "monitoring/registry.h"

namespace capstan::monitoring {

// Returns the body of /metrics.
std::string PrometheusText(const Registry& registry);

}  // namespace capstan::monitoring
