// SlotSamples, EpochPermutation: compute which samples a slot has at a step.
//
// Kind:   pure functions.
// Why:    a worker that is restarted, or that takes over a slot, needs no position, no generator state and no shuffled
//         list. From (seed, step, slot) it computes the same samples as any other worker.
// Source: cycle walking and the generalised Feistel network of Black and Rogaway, "Ciphers with arbitrary finite
//         domains", CT-RSA 2002.
//
// An epoch is a permutation of all training samples, cut into global batches; the last batch of an epoch may be
// smaller. A global batch is cut into equal slots; if it does not divide evenly, the first slots have one sample more.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/types.h"

namespace capstan::train {

struct SamplerSpec {
  std::uint64_t seed = 0;
  std::uint64_t dataset_size = 0;  // >= 1
  std::uint32_t global_batch = 0;  // >= 1
  std::uint32_t slots = 0;         // >= 1
};

// Maps a position in an epoch to a sample: a bijection of [0, size), computed for each position independently.
class EpochPermutation {
 public:
  EpochPermutation(std::uint64_t seed, std::uint64_t epoch, std::uint64_t size);
  std::uint64_t operator()(std::uint64_t position) const;

 private:
  std::uint64_t key_, size_;
  std::uint64_t rows_, columns_;  // rows * columns >= size, nearly equal
};

// A range [first, last) of samples, or of slots.
struct SampleRange {
  std::uint64_t first = 0, last = 0;
  std::uint64_t count() const { return last - first; }
};

std::uint64_t StepsPerEpoch(const SamplerSpec& spec);
// Returns the number of samples of all slots at a step: global_batch, or the rest of the epoch.
std::uint64_t BatchSize(const SamplerSpec& spec, Step step);
// Writes the training samples of a slot to `samples`; there may be none.
void SlotSamples(const SamplerSpec& spec, Step step, SlotIndex slot, std::vector<std::uint64_t>* samples);

// Returns a slot's part of [0, count). The parts are consecutive, cover the whole range, and differ in size by at most
// one.
SampleRange SlotShare(std::uint64_t count, std::uint32_t slots, SlotIndex slot);
// Returns the validation samples that a slot evaluates at every validation.
inline SampleRange ValidationShare(std::uint64_t count, std::uint32_t slots, SlotIndex slot) {
  return SlotShare(count, slots, slot);
}

}  // namespace capstan::train
