// RunningMinimum: the least of several clocks, which rise one push at a time.
//
// Kind:   a value.
// Why:    all clocks are compared only when none is left at the minimum. So a rise costs constant time on average, as
//         long as all clocks rise about equally fast.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/types.h"

namespace capstan {

class RunningMinimum {
 public:
  static constexpr SequenceNumber kNone{UINT64_MAX};

  RunningMinimum() = default;
  explicit RunningMinimum(std::vector<SequenceNumber> values) : values_(std::move(values)) { Count(); }

  void Set(std::size_t index, SequenceNumber value) {
    const SequenceNumber before = std::exchange(values_[index], value);
    if (value < least_) {
      least_ = value;
      at_least_ = 1;
    } else if (before != value) {
      at_least_ += value == least_ ? 1 : 0;
      if (before == least_ && --at_least_ == 0) Count();
    }
  }
  // The minimum; kNone if there are no clocks.
  SequenceNumber least() const { return least_; }
  SequenceNumber operator[](std::size_t index) const { return values_[index]; }
  const std::vector<SequenceNumber>& values() const { return values_; }

 private:
  void Count() {
    const auto least = std::min_element(values_.begin(), values_.end());
    least_ = least == values_.end() ? kNone : *least;
    at_least_ = static_cast<std::size_t>(std::count(values_.begin(), values_.end(), least_));
  }

  std::vector<SequenceNumber> values_;
  SequenceNumber least_ = kNone;
  std::size_t at_least_ = 0;  // how many numbers equal least_
};

}  // namespace capstan
