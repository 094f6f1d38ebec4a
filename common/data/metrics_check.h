// CheckMetrics: checks the metrics of a slot.
//
// Kind:   pure functions.
// Fails:  kInvalid, naming the metric and its value.
// Why:    a worker checks in its program's call, and a shard checks again because it trusts no worker.
#pragma once

#include <capstan/metric.h>

#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace capstan {

bool IsMetricName(std::string_view name);
Status CheckMetrics(const std::vector<Metric>& metrics);

}  // namespace capstan
