// CheckMetrics: what is wrong with the metrics of a slot.
//
// Kind:   pure functions.
// Fails:  kInvalid, naming the metric and its value.
// Why:    the worker's side says it to its program at the call, and a shard believes no worker.
#pragma once

#include <capstan/metric.h>

#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace capstan {

bool IsMetricName(std::string_view name);
Status CheckMetrics(const std::vector<Metric>& metrics);

}  // namespace capstan
