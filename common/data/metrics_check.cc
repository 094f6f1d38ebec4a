#include "common/data/metrics_check.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "common/base/utf8.h"

namespace capstan {

namespace {

// Whether a name may have this byte. isalnum would depend on the locale.
bool IsNameByte(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '/' || c == '-';
}

}  // namespace

bool IsMetricName(std::string_view name) {
  return !name.empty() && name.size() <= kMetricNameMax && std::all_of(name.begin(), name.end(), IsNameByte);
}

Status CheckMetrics(const std::vector<Metric>& metrics) {
  if (metrics.size() > kMetricsMax) {
    return Invalid("a slot has at most " + std::to_string(kMetricsMax) + " metrics, and this one has " +
                   std::to_string(metrics.size()) + "; the first too many is \"" + Excerpt(metrics[kMetricsMax].name) +
                   "\"");
  }
  for (const Metric& metric : metrics) {
    const std::string name = "metric \"" + Excerpt(metric.name) + "\": ";
    if (!IsMetricName(metric.name)) {
      return Invalid(name + "a name has 1 to " + std::to_string(kMetricNameMax) +
                     " bytes of A-Z, a-z, 0-9 and _./-, this one has " + std::to_string(metric.name.size()));
    }
    if (!std::isfinite(metric.sum)) {
      return Invalid(name + "its sum is " + std::to_string(metric.sum) + "; it must be a finite number");
    }
    if (!std::isfinite(metric.weight) || metric.weight < 0) {
      return Invalid(name + "its weight is " + std::to_string(metric.weight) +
                     "; it must be a finite number of at least 0");
    }
  }
  return {};
}

}  // namespace capstan
