// PrometheusText: the only file that knows prometheus-cpp.
#include "monitoring/prometheus_text.h"

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace capstan::monitoring {
namespace {

prometheus::MetricType TypeOf(MetricKind kind) {
  switch (kind) {
    case MetricKind::kCounter: return prometheus::MetricType::Counter;
    case MetricKind::kGauge: return prometheus::MetricType::Gauge;
    case MetricKind::kHistogram: return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Untyped;
}

prometheus::ClientMetric ToPrometheus(MetricKind kind, const Sample& sample) {
  prometheus::ClientMetric metric;
  for (const auto& [name, value] : sample.labels) metric.label.push_back({name, value});
  if (kind == MetricKind::kCounter) metric.counter.value = sample.value;
  if (kind == MetricKind::kGauge) metric.gauge.value = sample.value;
  if (kind != MetricKind::kHistogram) return metric;
  std::uint64_t cumulative = 0;
  for (std::size_t i = 0; i < sample.counts.size(); ++i) {
    cumulative += sample.counts[i];
    if (i < sample.bounds.size()) metric.histogram.bucket.push_back({cumulative, sample.bounds[i]});
  }
  metric.histogram.sample_count = cumulative;
  metric.histogram.sample_sum = sample.value;
  return metric;
}

class RegistryCollectable : public prometheus::Collectable {
 public:
  explicit RegistryCollectable(const Registry& registry) : registry_(registry) {}
  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> families;
    for (const Family& family : registry_.Read()) {
      auto& out = families.emplace_back();
      out.name = family.name;
      out.help = family.help;
      out.type = TypeOf(family.kind);
      for (const Sample& sample : family.samples) out.metric.push_back(ToPrometheus(family.kind, sample));
    }
    return families;
  }

 private:
  const Registry& registry_;
};

}  // namespace

std::string PrometheusText(const Registry& registry) {
  return prometheus::TextSerializer().Serialize(RegistryCollectable(registry).Collect());
}

}  // namespace capstan::monitoring
