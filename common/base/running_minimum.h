// RunningMinimum: the minimum of several numbers that mostly rise.
//
// Kind:   a value.
// Why:    clocks rise one push at a time. All are compared only when none is left at the minimum, so a rise costs
//         constant time on average.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace capstan::server {

class RunningMinimum {
 public:
  RunningMinimum() = default;
  explicit RunningMinimum(std::vector<std::uint64_t> values) : values_(std::move(values)) { Count(); }

  void Set(std::size_t index, std::uint64_t value) {
    const std::uint64_t before = std::exchange(values_[index], value);
    if (value < least_) {
      least_ = value;
      at_least_ = 1;
    } else if (before != value) {
      at_least_ += value == least_ ? 1 : 0;
      if (before == least_ && --at_least_ == 0) Count();
    }
  }
  // The minimum; UINT64_MAX if there are no numbers.
  std::uint64_t least() const { return least_; }
  std::uint64_t operator[](std::size_t index) const { return values_[index]; }
  const std::vector<std::uint64_t>& values() const { return values_; }

 private:
  void Count() {
    const auto least = std::min_element(values_.begin(), values_.end());
    least_ = least == values_.end() ? UINT64_MAX : *least;
    at_least_ = static_cast<std::size_t>(std::count(values_.begin(), values_.end(), least_));
  }

  std::vector<std::uint64_t> values_;
  std::uint64_t least_ = UINT64_MAX;
  std::size_t at_least_ = 0;  // how many numbers equal least_
};

}  // namespace capstan::server
