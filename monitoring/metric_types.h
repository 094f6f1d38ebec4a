// Counter, SecondsCounter, Gauge, OptionalGauge, Histogram, Labelled: numbers that one thread writes and
// any thread reads.
//
// Kind:   shared; written by one owner thread, read by the exporter at scrape time.
// Limits: no lock, no allocation, no read-modify-write instruction; a reader may see fields from different moments.
// Why:    a metric that every push updates may cost only plain loads and stores; prometheus-cpp's Histogram takes a
//         mutex.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

#include "common/base/status.h"

namespace capstan::monitoring {

// A whole number that only grows.
class Counter {
 public:
  void Add(std::uint64_t count = 1) { value_.store(value() + count, std::memory_order_relaxed); }
  // Takes over a total that is counted elsewhere; a total below the present value is ignored.
  void AdvanceTo(std::uint64_t total) {
    if (total > value()) value_.store(total, std::memory_order_relaxed);
  }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// A growing number of seconds. Negative and NaN additions are ignored.
class SecondsCounter {
 public:
  void Add(double seconds) {
    if (seconds > 0) value_.store(value() + seconds, std::memory_order_relaxed);
  }
  void Add(std::chrono::nanoseconds duration) { Add(std::chrono::duration<double>(duration).count()); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

// A number that goes up and down. It starts at 0.
class Gauge {
 public:
  template <class T>
  requires std::is_arithmetic_v<T>
  void Set(T value) { value_.store(static_cast<double>(value), std::memory_order_relaxed); }
  void Add(double difference) { Set(value() + difference); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

// A number without a value before the first Set, such as the loss before the first step. Until then it is not exported.
class OptionalGauge {
 public:
  void Set(double value) {
    value_.store(value, std::memory_order_relaxed);
    is_set_.store(true, std::memory_order_release);
  }
  std::optional<double> value() const {
    if (!is_set_.load(std::memory_order_acquire)) return std::nullopt;
    return value_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<double> value_{0};
  std::atomic<bool> is_set_{false};
};

// A histogram of any size, as readers see it: counts[i] observations in (bounds[i-1], bounds[i]]. The last count is of
// observations above every bound, and of NaN.
struct HistogramView {
  std::span<const double> bounds;
  std::span<const std::atomic<std::uint64_t>> counts;
  double sum = 0;
};

// Counts observations in fixed buckets. kBounds, a constexpr std::array<double, N>, has their upper bounds, inclusive
// and ascending.
template <const auto& kBounds>
class Histogram {
 public:
  void Observe(double value) {
    std::size_t bucket = 0;
    while (bucket < kBounds.size() && !(value <= kBounds[bucket])) ++bucket;  // NaN counts as above every bound
    counts_[bucket].store(counts_[bucket].load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (std::isfinite(value)) sum_.store(sum_.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
  }
  void Observe(std::chrono::nanoseconds duration) { Observe(std::chrono::duration<double>(duration).count()); }

  HistogramView view() const { return {kBounds, counts_, sum_.load(std::memory_order_relaxed)}; }
  std::uint64_t count() const {
    std::uint64_t total = 0;
    for (const auto& bucket : counts_) total += bucket.load(std::memory_order_relaxed);
    return total;
  }

 private:
  std::array<std::atomic<std::uint64_t>, kBounds.size() + 1> counts_{};
  std::atomic<double> sum_{0};
};

// One T for each value of an enum that counts from 0 to kLast: metrics.bytes_in[Plane::kData].Add(n).
template <class T, class Enum, Enum kLast>
class Labelled {
 public:
  static constexpr std::size_t kSize = static_cast<std::size_t>(kLast) + 1;

  T& operator[](Enum label) { return items_[Index(label)]; }
  const T& operator[](Enum label) const { return items_[Index(label)]; }

 private:
  static std::size_t Index(Enum label) {
    const auto index = static_cast<std::size_t>(label);
    CAPSTAN_CHECK(index < kSize);
    return index;
  }
  std::array<T, kSize> items_{};
};

}  // namespace capstan::monitoring
