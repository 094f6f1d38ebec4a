// Strong types for the numbers of the protocol. A term, generation, incarnation or session number is never used twice
// within a job. Steps and versions repeat after a rollback, in another generation.
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
using SessionId = Number<struct SessionTag>;        // one start of a worker: a secret random number; 0 is none
using Step = Number<struct StepTag>;                // a global batch; in async and bounded what every slot has done
// Counts the pushes of one slot, in modes async and bounded. A clock is the least of several sequence numbers.
using SequenceNumber = Number<struct SequenceTag>;
using Version = Number<struct VersionTag>;  // weights that step `value` computes with; step k makes version k+1

// A generation and the timeline that begins with it have the same number.
constexpr TimelineId TimelineFrom(Generation first) { return {first.value}; }
constexpr Generation FirstGeneration(TimelineId timeline) { return {timeline.value}; }

// Convert between a step and a sequence number. In modes async and bounded the field `step` of Push, EndSlot and Staged
// has a slot's sequence number, and a coordinator's step has the job's clock.
constexpr SequenceNumber SequenceOf(Step step) { return {step.value}; }
constexpr Step StepOf(SequenceNumber number) { return {number.value}; }
// Modes async and bounded: the version of a shard whose slowest slot has this clock.
constexpr Version VersionAt(SequenceNumber clock) { return {clock.value}; }

// 128 random bits that name a job. They are kept on disk and sent in messages, so processes of two jobs do not mix.
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

// Monotonic time since an arbitrary origin. The protocol's cores are given the time and never read a clock.
using Instant = std::chrono::nanoseconds;

// Names a peer of one transport; it has no meaning for another transport. 0 is none.
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
