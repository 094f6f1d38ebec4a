#include "common/flight/flight_notes.h"

namespace capstan {

void FlightNotes::Log(const Notice& notice, Instant now) {
  if (lane_ == nullptr) return;
  const FlightKind kind = notice.severity == Severity::kInfo      ? FlightKind::kInfo
                          : notice.severity == Severity::kWarning ? FlightKind::kWarning
                                                                  : FlightKind::kError;
  lane_->Note(kind, notice.text, now);
}

void FlightNotes::State(std::string_view text, Instant now, std::uint64_t position, Generation generation) {
  if (lane_ == nullptr || (text == state_ && generation == generation_)) return;
  state_ = text;
  generation_ = generation;
  lane_->Note(FlightKind::kState, text, now, position, generation);
}

bool FlightNotes::LooksAgain(Instant now, std::uint64_t position, Generation generation) {
  if (position == position_) return now >= next_;
  if (waits_) lane_->Note(FlightKind::kWaits, "", now, position, generation);
  waits_ = false;
  position_ = position;
  next_ = now + kAfter;
  return false;
}

void FlightNotes::NoteWait(const std::string& whom, Instant now, Generation generation) {
  next_ = now + (whom.empty() ? kAfter : kEvery);
  if (whom.empty() && !waits_) return;
  waits_ = !whom.empty();
  lane_->Note(FlightKind::kWaits, whom, now, position_, generation);
}

void FlightNotes::SnapshotBegins(Instant now, Version version, Generation generation) {
  if (lane_ != nullptr) lane_->Note(FlightKind::kSnapshotBegins, "", now, version.value, generation);
}

void FlightNotes::SnapshotEnds(Instant now, Version version, Generation generation, const Status& result) {
  if (lane_ != nullptr) lane_->Note(FlightKind::kSnapshotEnds, result.message(), now, version.value, generation);
}

}  // namespace capstan
