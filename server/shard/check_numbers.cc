#include "server/shard/check_numbers.h"

#include <cstdint>
#include <string>

namespace capstan::server {

namespace {

// How far a coordinator's numbers may be above the shard's. A term ends with its coordinator, and a generation lasts a
// second at least; but the shard's directory may be new, and the job old.
constexpr std::uint64_t kTermsAheadMax = std::uint64_t{1} << 20, kGenerationsAheadMax = std::uint64_t{1} << 32;
constexpr std::uint64_t kLivesMax = std::uint64_t{1} << 48;  // a coordinator accepts no higher number from a shard

bool IsNear(std::uint64_t said, std::uint64_t known, std::uint64_t ahead_max) {
  return said <= kLivesMax && (said <= known || said - known <= ahead_max);
}

std::string TextOf(const CoordinatorNumbers& numbers) {
  return "term " + std::to_string(numbers.term.value) + " and generation " + std::to_string(numbers.generation.value);
}

}  // namespace

Status CheckNumbers(const CoordinatorNumbers& said, const CoordinatorNumbers& known) {
  if (IsNear(said.term.value, known.term.value, kTermsAheadMax) &&
      IsNear(said.generation.value, known.generation.value, kGenerationsAheadMax)) {
    return {};
  }
  return Invalid("its message is of " + TextOf(said) + ", which no job reaches; this shard knows " + TextOf(known));
}

}  // namespace capstan::server
