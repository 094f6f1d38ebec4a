// PlantMetrics: one struct of each kind with known values, for tests that look for them at the other end.
#pragma once

#include "monitoring/registry.h"

namespace capstan::monitoring {

void PlantMetrics(Registry& registry);

}  // namespace capstan::monitoring
