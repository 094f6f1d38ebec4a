// PlantMetrics: one struct of each kind with known values, for tests that search for them in the output.
#pragma once

#include "monitoring/registry.h"

namespace capstan::monitoring {

void PlantMetrics(Registry& registry);

}  // namespace capstan::monitoring
