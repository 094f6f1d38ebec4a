// Strong names for the numbers of the protocol. Those that name a life (term, generation, incarnation, session) are
// never used twice within a job; steps and versions come again after a rollback, in another generation.
//
// Kind:   values.
// Why:    with plain integers, a step passed as a generation compiles and corrupts a run; with these types it
//         does not compile.
#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>

namespace capstan {

template <class Tag>
struct Number {
  std::uint64_t value = 0;
  constexpr auto operator<=>(const Number&) const = default;
  constexpr Number Next() const { return {value + 1}; }
};

using Term = Number<struct TermTag>;                // one start of the coordinator
using Generation = Number<struct GenerationTag>;    // the time between two recoveries or regroupings
using TimelineId = Number<struct TimelineTag>;      // a line of versions, named by its first generation; 0 is none
using Incarnation = Number<struct IncarnationTag>;  // one start of a shard
using SessionId = Number<struct SessionTag>;        // one start of a worker; 0 is none
using Step = Number<struct StepTag>;                // a global batch; in async and bounded what every slot has done
// async and bounded: counts the pushes of one slot. A clock is the least of several of these.
using SequenceNumber = Number<struct SequenceTag>;
using Version = Number<struct VersionTag>;  // weights that step `value` computes with; step k makes version k+1

// The timeline that begins with a generation, and back.
constexpr TimelineId TimelineFrom(Generation first) { return {first.value}; }
constexpr Generation FirstGeneration(TimelineId timeline) { return {timeline.value}; }

// The two meanings of a worker's `step`. In async and bounded the field `step` of Push, EndSlot, CoverageQuery and
// Staged has the slot's sequence number. The job's clock counts its steps.
constexpr SequenceNumber SequenceOf(Step step) { return {step.value}; }
constexpr Step StepOf(SequenceNumber number) { return {number.value}; }
// In async and bounded, the version of a shard whose slowest slot's clock is `clock`: what bounded pulls wait for.
constexpr Version VersionAt(SequenceNumber clock) { return {clock.value}; }

// 128 random bits that name a job, made at its creation and kept in every directory and Join.
struct JobId {
  std::uint64_t high = 0, low = 0;
  auto operator<=>(const JobId&) const = default;
  bool IsNull() const { return high == 0 && low == 0; }
};

// The format of a payload's numbers.
enum class Encoding : std::uint8_t { kFp32 = 0, kBf16 = 1, kFp16 = 2 };

using SlotIndex = std::uint32_t;
using ShardIndex = std::uint32_t;
using BlockIndex = std::uint32_t;
using TensorIndex = std::uint32_t;

// Monotonic time since an arbitrary origin. Actors receive the time with each call and never read a clock.
using Instant = std::chrono::nanoseconds;

// Address of a peer of one transport; it has no meaning to other actors. 0 is none.
struct PeerId {
  std::uint64_t value = 0;
  constexpr auto operator<=>(const PeerId&) const = default;
};

}  // namespace capstan

template <class Tag>
struct std::hash<capstan::Number<Tag>> {
  std::size_t operator()(capstan::Number<Tag> number) const noexcept {
    return std::hash<std::uint64_t>()(number.value);
  }
};
template <>
struct std::hash<capstan::PeerId> {
  std::size_t operator()(capstan::PeerId id) const noexcept { return std::hash<std::uint64_t>()(id.value); }
};
