#include "common/flight/flight_lane.h"

#include <algorithm>
#include <limits>

#include "common/flight/flight_text.h"

namespace capstan {
namespace {

constexpr std::uint64_t kMost32 = std::numeric_limits<std::uint32_t>::max();

std::uint32_t Saturated(std::uint64_t number) { return static_cast<std::uint32_t>(std::min(number, kMost32)); }

std::size_t HashOf(FlightKind kind, std::uint8_t message, PeerId peer) {
  const std::uint64_t key = peer.value * 256 * 16 + message * std::uint64_t{16} + static_cast<std::uint64_t>(kind);
  return static_cast<std::size_t>(key * 0x9E3779B97F4A7C15U >> 40);
}

FlightRecord RecordOf(FlightKind kind, const MessageFacts& facts, Code result, Instant now) {
  FlightRecord record;
  record.at_ns = static_cast<std::uint64_t>(now.count());
  record.count = 1;
  record.last_count = 1;
  record.position = facts.position;
  record.generation = Saturated(facts.generation);
  record.kind = kind;
  record.message = facts.type;
  record.code = kind == FlightKind::kNotSent ? static_cast<std::uint8_t>(result) : facts.code;
  record.number = facts.number;
  return record;
}

}  // namespace

void FlightLane::Add(FlightKind kind, PeerId peer, const Header& header, Code result, Instant now) {
  const MessageFacts facts = FactsOf(header);
  FlightRecord record = RecordOf(kind, facts, result, now);
  Open& open = OpenOf(kind, facts.type, peer);
  const bool same = open.kind == kind && open.message == facts.type && open.peer == peer.value;
  const bool rare = facts.rare && TakeRare(now);
  if (same && !rare && CountIn(open, record, facts.adds)) {
    open.highest = std::max(open.highest, facts.position);
    return;
  }
  if (kind == FlightKind::kReceived) names_.Learn(peer, header, facts);
  if (kind == FlightKind::kSent) names_.LearnSessions(header);
  record.peer = names_.Of(peer, kind == FlightKind::kReceived ? facts.session : SessionId{});
  const bool newer =
      facts.generation > open.generation || (facts.generation == open.generation && facts.position > open.highest);
  if (same && newer) record.flags = kFlightBegins;
  if (!same || newer) open = {peer.value, kNoRecord, facts.generation, facts.position, kind, facts.type};
  open.record = rare ? kNoRecord : records_.Add(record);
  if (rare) AddEvent(record, TextOf(header));
}

void FlightLane::Refused(PeerId from, Instant now) {
  FlightRecord record = RecordOf(FlightKind::kRefused, {}, Code::kOk, now);
  Open& open = OpenOf(FlightKind::kRefused, 0, from);
  const bool same = open.kind == FlightKind::kRefused && open.peer == from.value;
  if (same && CountIn(open, record, false)) return;
  record.peer = names_.Of(from);
  open = {from.value, records_.Add(record), 0, 0, FlightKind::kRefused, 0};
}

FlightLane::Open& FlightLane::OpenOf(FlightKind kind, std::uint8_t message, PeerId peer) {
  const std::size_t first = HashOf(kind, message, peer);
  Open* oldest = nullptr;
  for (std::size_t way = 0; way < kOpenWays; ++way) {
    Open& open = open_[(first + way) % kOpenMax];
    const bool same = open.kind == kind && open.message == message && open.peer == peer.value;
    if (same || open.kind == FlightKind::kNone) return open;  // none is ever emptied, so no later one is the same
    if (oldest == nullptr || open.record + 1 < oldest->record + 1) oldest = &open;  // kNoRecord is older than all
  }
  return *oldest;
}

bool FlightLane::TakeRare(Instant now) {
  const std::int64_t seconds = (now - rare_since_) / std::chrono::seconds(1);
  if (seconds > 0) {
    rare_ = std::max<std::int64_t>(0, rare_ - seconds);
    rare_since_ = now;
  }
  if (rare_ >= kRareMax) return false;
  ++rare_;
  return true;
}

bool FlightLane::CountIn(const Open& open, const FlightRecord& added, bool adds) {
  if (!records_.Holds(open.record)) return false;
  FlightRecord record = records_.Read(open.record);
  const std::uint64_t lasted_ns = added.at_ns - record.at_ns, position = added.position;
  const std::uint64_t last = record.position + record.position_span;
  const Instant most = position <= last ? kSameStep : kTogether;
  const std::uint64_t split = lasted_ns >= static_cast<std::uint64_t>(kSplits.count()) ? kSplitSteps : kStepsTogether;
  const bool splits = position > last && position / split != last / split;
  if (record.generation != added.generation || record.code != added.code || splits || position < record.position ||
      position - record.position > kMost32 || lasted_ns > static_cast<std::uint64_t>(most.count())) {
    return false;
  }
  if (position > last) {
    record.position_span = static_cast<std::uint32_t>(position - record.position);
    record.last_count = 0;
  }
  if (position >= last) record.last_count = Saturated(std::uint64_t{record.last_count} + 1);
  record.lasted_us = Saturated(lasted_ns / 1000);
  record.count = Saturated(std::uint64_t{record.count} + 1);
  record.number = adds ? Saturated(std::uint64_t{record.number} + added.number) : added.number;
  records_.Replace(open.record, record);
  return true;
}

void FlightLane::AddEvent(const FlightRecord& record, std::string_view text) {
  FlightEvent event;
  event.record = record;
  PutText(text, &event.text);
  events_.Add(event);
}

void FlightLane::Connected(PeerId peer, const std::string& endpoint, std::string_view fallback, Instant now) {
  names_.Connected(peer, endpoint, fallback);
  FlightRecord record = RecordOf(FlightKind::kConnects, {}, Code::kOk, now);
  record.peer = names_.Of(peer);
  AddEvent(record, "");
}

void FlightLane::Disconnected(PeerId peer, Instant now) {
  FlightRecord record = RecordOf(FlightKind::kDisconnects, {}, Code::kOk, now);
  record.peer = names_.Of(peer);
  AddEvent(record, "");
}

void FlightLane::Note(FlightKind kind, std::string_view text, Instant now, std::uint64_t position,
                      Generation generation) {
  MessageFacts facts;
  facts.position = position;
  facts.generation = generation.value;
  AddEvent(RecordOf(kind, facts, Code::kOk, now), text);
}

}  // namespace capstan
