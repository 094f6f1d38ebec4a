// FlightNotes: what a loop notes of its core in a lane: log lines, changes of state, and long waits.
//
// Kind:   owned by the loop's thread.
// Limits: a wait is noted once it has lasted for kAfter, and again every kEvery.
// Why:    every step has short waits, which would fill the ring.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/flight/flight_lane.h"
#include "common/wire/actor.h"

namespace capstan {

class FlightNotes {
 public:
  static constexpr Instant kAfter = std::chrono::seconds(1), kEvery = std::chrono::seconds(10);

  // `lane` outlives this. Null: nothing is noted.
  explicit FlightNotes(FlightLane* lane) : lane_(lane) {}

  void Log(const Notice& notice, Instant now);
  // Notes the state if the text or the generation has changed.
  void State(std::string_view text, Instant now, std::uint64_t position, Generation generation);
  // Call it often. `whom` returns the processes that the actor waits for, or an empty text; it is called at most once
  // each kAfter. A wait ends when `position` changes.
  template <class Whom>
  void Waits(const Whom& whom, Instant now, std::uint64_t position, Generation generation) {
    if (lane_ == nullptr || !LooksAgain(now, position, generation)) return;
    NoteWait(whom(), now, generation);
  }
  // Notes that a snapshot of this version is written, or that it is done. `result`: of the writing.
  void SnapshotBegins(Instant now, Version version, Generation generation);
  void SnapshotEnds(Instant now, Version version, Generation generation, const Status& result);

 private:
  bool LooksAgain(Instant now, std::uint64_t position, Generation generation);
  void NoteWait(const std::string& whom, Instant now, Generation generation);

  FlightLane* const lane_;
  std::string state_;
  Generation generation_;
  std::uint64_t position_ = UINT64_MAX;  // of the wait under way; no step has this number
  Instant next_{};
  bool waits_ = false;  // a wait was noted that goes on
};

}  // namespace capstan
