// EqualSlots: finds two workers that compute the same samples, which wastes half of their work.
//
// Kind:   a value; part of the Coordinator. Volatile: a restarted coordinator looks again.
// Limits: one notice. Only the first steps are examined, because a program with this mistake makes it from the start.
// Why:    slots with different samples hardly ever have the same loss, bit for bit. If slots of two workers report the
//         same bits in two consecutive steps, and the bits change between the steps, the workers draw the same samples.
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

  // Examines the first `steps` steps. For a built-in model use 0: its samples follow from (seed, step, slot), and equal
  // losses only mean that few samples are almost learned.
  explicit EqualSlots(int steps) : left_(steps) {}

  // Takes the reports of a committed step. Returns whether text() was just set.
  bool See(Generation generation, Step step, const std::vector<const Prepared*>& prepared, const Membership& members);
  // A warning such as "slots 0 and 1 of step 5 are equal: do "a" and "b" draw the same samples? ..."; empty while
  // nothing was found.
  const std::string& text() const { return text_; }

 private:
  using Figures = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;  // the loss sum's bits, predictions, samples

  Generation generation_;
  Step step_;
  std::map<SlotIndex, Figures> before_;  // each slot's figures in step_
  int left_;
  std::string text_;
};

}  // namespace capstan::server
