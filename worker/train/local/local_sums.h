// LocalHead, PlanLocalSums, AddUp: which gradients of a machine's workers become which nodes of the tree, and the sums.
//
// Kind:   values and pure functions.
// Parity: AddUp adds as a shard would: siblings of the job's tree, left to right.
// Why:    all members decide from the same heads, so nobody has to be told what was decided.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "update/block_update.h"

namespace capstan::train {

// What one worker brings to a step.
struct LocalHead {
  static constexpr std::size_t kPartsMax = 4;  // of a worker; one with more pushes by itself
  static constexpr std::size_t kFloats = 6 + 3 * kPartsMax;
  struct Part {
    Node node;
    std::uint64_t samples = 0;
    bool operator==(const Part&) const = default;
  };

  Generation generation;
  Step step;
  bool joins = false;  // false: it pushes by itself
  std::vector<Part> parts;

  // Bits in the place of floats, which are copied alone.
  void Write(std::span<float> words) const;
  static LocalHead Read(std::span<const float> words);
};

struct LocalPlan {
  struct Part {
    int rank = 0;
    std::size_t number = 0;  // among that worker's
    Node node;
    std::uint64_t samples = 0;
  };
  std::vector<Part> parts;     // by slot
  std::vector<Node> sums;      // what is pushed for all; none: each pushes by itself
  std::size_t parts_each = 0;  // of one worker, at most
};

// `heads` by rank. All of them join, in one step; else, and where nothing would be saved, there are no sums.
LocalPlan PlanLocalSums(const std::vector<LocalHead>& heads, SlotIndex slot_count);

// The value of `node`, of which `parts` hold all slots: a part itself, or a sum in `out`, which has room for `count`.
// `spare` is memory that is kept from call to call.
StagedInput AddUp(Node node, std::span<const StagedInput> parts, std::size_t count, float* out,
                  std::vector<std::vector<float>>* spare);

}  // namespace capstan::train
