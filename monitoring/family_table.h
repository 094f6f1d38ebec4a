// FamilyTable: one reading of all metrics, grouped by name into families, from which any format can be written.
//
// Kind:   value.
// Fails:  never. CHECKs that a family is described in the same way each time (kind, merge, help text, bounds).
// Why:    several shards of one process describe the same families. Samples with equal names and labels are merged
//         here, so no label is needed for a shard or a rank.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "monitoring/metric_types.h"

namespace capstan::monitoring {

enum class MetricKind { kCounter, kGauge, kHistogram };
// How gauges of several actors with equal name and labels are merged. Counters and histograms are always summed.
enum class Merge { kSum, kMax, kMean };

using Labels = std::vector<std::pair<std::string, std::string>>;
// A label's name and its values, in the order of the enum that selects them.
struct LabelValues {
  const char* name;
  std::span<const char* const> values;
};

struct Sample {
  Labels labels;
  double value = 0;                   // counters and gauges
  std::vector<double> bounds;         // histograms: inclusive upper bounds
  std::vector<std::uint64_t> counts;  // histograms: counts of single buckets, one more than `bounds`
  std::uint32_t merged = 0;           // number of readings merged into it
};

struct Family {
  std::string name, help;
  MetricKind kind = MetricKind::kCounter;
  Merge merge = Merge::kSum;
  std::vector<Sample> samples;
};

class FamilyTable {
 public:
  // Adds samples to one family. Use a Row within one statement: the next new family invalidates it.
  class Row {
   public:
    Row(Family& family) : family_(family) {}

    Row& Add(const Counter& counter, Labels labels = {});
    Row& Add(const SecondsCounter& counter, Labels labels = {});
    Row& Add(const Gauge& gauge, Labels labels = {});
    Row& Add(const OptionalGauge& gauge, Labels labels = {});
    Row& Add(const HistogramView& histogram, Labels labels = {});
    template <const auto& kBounds>
    Row& Add(const Histogram<kBounds>& histogram, Labels labels = {}) {
      return Add(histogram.view(), std::move(labels));
    }
    Row& Add(double value, Labels labels = {});

    // Adds one sample for each value of Enum; the label names the value.
    template <class T, class Enum, Enum kLast>
    Row& AddEach(const LabelValues& label, const Labelled<T, Enum, kLast>& items, const Labels& more = {}) {
      CAPSTAN_CHECK(label.values.size() == items.kSize);
      for (std::size_t i = 0; i < items.kSize; ++i) {
        Labels labels = more;
        labels.emplace_back(label.name, label.values[i]);
        Add(items[static_cast<Enum>(i)], std::move(labels));
      }
      return *this;
    }
    template <class Inner, class Enum, Enum kLast>
    Row& AddEach(const LabelValues& outer, const LabelValues& inner, const Labelled<Inner, Enum, kLast>& items) {
      CAPSTAN_CHECK(outer.values.size() == items.kSize);
      for (std::size_t i = 0; i < items.kSize; ++i)
        AddEach(inner, items[static_cast<Enum>(i)], {{outer.name, outer.values[i]}});
      return *this;
    }

   private:
    Sample& Find(Labels labels);
    Family& family_;
  };

  Row Counters(const char* name, const char* help) { return FindOrAdd(name, help, MetricKind::kCounter, Merge::kSum); }
  Row Gauges(const char* name, const char* help, Merge merge) {
    return FindOrAdd(name, help, MetricKind::kGauge, merge);
  }
  Row Histograms(const char* name, const char* help) {
    return FindOrAdd(name, help, MetricKind::kHistogram, Merge::kSum);
  }

  // Returns all families that have a sample, in the order of their first description.
  std::vector<Family> Take() &&;

 private:
  Family& FindOrAdd(const char* name, const char* help, MetricKind kind, Merge merge);
  std::vector<Family> families_;
};

}  // namespace capstan::monitoring
