#include "monitoring/family_table.h"

#include <algorithm>

#include "common/base/status.h"

namespace capstan::monitoring {

Sample& FamilyTable::Row::Find(Labels labels) {
  for (Sample& sample : family_.samples)
    if (sample.labels == labels) return sample;
  Sample& sample = family_.samples.emplace_back();
  sample.labels = std::move(labels);
  return sample;
}

FamilyTable::Row& FamilyTable::Row::Add(double value, Labels labels) {
  CAPSTAN_CHECK(family_.kind != MetricKind::kHistogram);
  Sample& sample = Find(std::move(labels));
  ++sample.merged;
  if (sample.merged == 1) {
    sample.value = value;
  } else if (family_.merge == Merge::kSum) {
    sample.value += value;
  } else if (family_.merge == Merge::kMax) {
    sample.value = std::max(sample.value, value);
  } else {
    sample.value += (value - sample.value) / sample.merged;
  }
  return *this;
}

FamilyTable::Row& FamilyTable::Row::Add(const Counter& counter, Labels labels) {
  return Add(static_cast<double>(counter.value()), std::move(labels));
}
FamilyTable::Row& FamilyTable::Row::Add(const SecondsCounter& counter, Labels labels) {
  return Add(counter.value(), std::move(labels));
}
FamilyTable::Row& FamilyTable::Row::Add(const Gauge& gauge, Labels labels) {
  return Add(gauge.value(), std::move(labels));
}
FamilyTable::Row& FamilyTable::Row::Add(const OptionalGauge& gauge, Labels labels) {
  if (const auto value = gauge.value()) Add(*value, std::move(labels));
  return *this;
}

FamilyTable::Row& FamilyTable::Row::Add(const HistogramView& histogram, Labels labels) {
  CAPSTAN_CHECK(family_.kind == MetricKind::kHistogram);
  Sample& sample = Find(std::move(labels));
  if (++sample.merged == 1) {
    sample.bounds.assign(histogram.bounds.begin(), histogram.bounds.end());
    sample.counts.assign(histogram.counts.size(), 0);
  }
  CAPSTAN_CHECK(std::ranges::equal(sample.bounds, histogram.bounds));
  for (std::size_t i = 0; i < histogram.counts.size(); ++i)
    sample.counts[i] += histogram.counts[i].load(std::memory_order_relaxed);
  sample.value += histogram.sum;
  return *this;
}

Family& FamilyTable::FindOrAdd(const char* name, const char* help, MetricKind kind, Merge merge) {
  for (Family& family : families_) {
    if (family.name != name) continue;
    CAPSTAN_CHECK(family.kind == kind && family.merge == merge && family.help == help);
    return family;
  }
  return families_.emplace_back(Family{.name = name, .help = help, .kind = kind, .merge = merge, .samples = {}});
}

std::vector<Family> FamilyTable::Take() && {
  std::erase_if(families_, [](const Family& family) { return family.samples.empty(); });
  return std::move(families_);
}

}  // namespace capstan::monitoring
