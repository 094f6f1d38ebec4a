// EqualSlots: notices two workers that compute the same samples, so that half of their work is thrown away.
//
// Kind:   a value; part of the Coordinator. Volatile: another coordinator notices it again.
// Limits: one notice in its life, about one of its first steps: a program that does so does it from the start.
// Why:    the reports of two slots that draw samples of their own differ in their losses. Two workers whose slots come
//         with the same bits in two steps one after the other, and with other bits in each of the two, draw the same.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/types.h"

namespace capstan {
struct Prepared;
}  // namespace capstan

namespace capstan::server {

class Membership;

class EqualSlots {
 public:
  static constexpr int kStepsSeen = 1000;

  // Looks at so many steps: at none of a built-in model, whose samples follow from (seed, step, slot). Equal losses there
  // are those of few samples that are almost learned.
  explicit EqualSlots(int steps) : left_(steps) {}

  // The reports of a step that is committed. Whether text() is new.
  bool See(Generation generation, Step step, const std::vector<const Prepared*>& prepared, const Membership& members);
  // "slots 0 and 1 of step 5 are equal: do "a" and "b" draw the same samples? ..."; empty while nothing was noticed.
  const std::string& text() const { return text_; }

 private:
  using Figures = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;  // bits of the loss, predictions, samples

  Generation generation_;
  Step step_;
  std::map<SlotIndex, Figures> before_;  // of step_
  int left_;
  std::string text_;
};

}  // namespace capstan::server
