// FillTo, LargestReports: values that are as large as messages and records may have them.
//
// Kind:   functions.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "common/wire/message_fields.h"
#include "common/wire/messages.h"
#include "tests/common/wire/random_messages.h"

namespace capstan::server {

struct Sizes {
  std::size_t list, inner_list, text;
  // Returns the sizes inside an entry of a list.
  Sizes Inner() const { return {inner_list, inner_list, text}; }
};

template <class T>
void FillTo(const Sizes& sizes, T& value);

struct FillerTo {
  const Sizes& sizes;
  void operator()(auto& member, const auto&...) { FillTo(sizes, member); }
};

inline void FillTo(const Sizes& sizes, std::string& text) { text.assign(sizes.text, 'x'); }
template <class T>
void FillTo(const Sizes& sizes, std::vector<T>& list) {
  list.resize(sizes.list);
  for (T& element : list) FillTo(sizes.Inner(), element);
}
template <class T>
void FillTo(const Sizes& sizes, std::optional<T>& value) {
  FillTo(sizes, value.emplace());
}
template <class Tag>
void FillTo(const Sizes& sizes, Number<Tag>& number) {
  FillTo(sizes, number.value);
}
template <class T>
void FillTo(const Sizes& sizes, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    value = true;
  } else if constexpr (std::is_enum_v<T>) {
    value = LastOf(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    value = std::numeric_limits<T>::lowest();
  } else if constexpr (std::is_arithmetic_v<T>) {
    value = std::numeric_limits<T>::max();
  } else {
    FillerTo filler{sizes};
    Fields(filler, value);
  }
}

// Returns reports of as many slots as a job may have, all on one shard, each with as many metrics as it may have.
inline std::vector<SlotReport> LargestReports() {
  std::vector<SlotReport> reports(kSlotsMax);
  for (SlotIndex slot = 0; slot < kSlotsMax; ++slot) {
    reports[slot].slot = slot;
    for (std::size_t i = 0; i < kMetricsMax; ++i) {
      reports[slot].metrics.push_back({std::string(kMetricNameMax, 'm'), 1e300, 1e300});
    }
  }
  return reports;
}

}  // namespace capstan::server
