// RecentTime: the shares of a process's recent time that its activities took, from sums that only grow.
//
// Kind:   a value.
// Limits: the shares are of the last 10 to 20 s, or of all that is known if that is less.
// Why:    reports come once a second. They carry sums, so one that is lost changes nothing.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/base/types.h"

namespace capstan::server {

template <std::size_t N>
class RecentTime {
 public:
  // `all`: the process's time in microseconds; `parts`: how much of it was spent on each of N things.
  void Take(std::uint64_t all, const std::array<std::uint64_t, N>& parts, Instant now) {
    const Sums sums{all, parts};
    if (!has_any_ || all < newest_.all) older_ = old_ = sums, old_since_ = now;
    has_any_ = true;
    newest_ = sums;
    if (now - old_since_ < kWindow) return;
    older_ = old_;
    old_ = sums;
    old_since_ = now;
  }

  // Returns the parts' shares, each from 0 to 1; nothing before kLeastUs are known. The sums come from a peer, so their
  // parts may be more than the whole.
  std::optional<std::array<double, N>> shares() const {
    const std::uint64_t all = newest_.all - older_.all;
    if (!has_any_ || all < kLeastUs) return std::nullopt;
    std::array<double, N> shares{};
    for (std::size_t i = 0; i < N; ++i) {
      const std::uint64_t part = newest_.parts[i] - std::min(older_.parts[i], newest_.parts[i]);
      shares[i] = std::min(1.0, static_cast<double>(part) / static_cast<double>(all));
    }
    return shares;
  }

 private:
  static constexpr Instant kWindow = std::chrono::seconds(10);
  static constexpr std::uint64_t kLeastUs = 900'000;

  struct Sums {
    std::uint64_t all = 0;
    std::array<std::uint64_t, N> parts{};
  };
  Sums older_, old_, newest_;
  Instant old_since_{};
  bool has_any_ = false;
};

}  // namespace capstan::server
