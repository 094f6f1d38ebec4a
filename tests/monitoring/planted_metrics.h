// PlantMetrics: adds one metric struct of each kind with fixed values, for tests that look for these in an output.
#pragma once

#include "monitoring/registry.h"

namespace capstan::monitoring {

void PlantMetrics(Registry& registry);

}  // namespace capstan::monitoring
