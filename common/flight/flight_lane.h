// FlightLane: the newest events of one thread that has a socket and a core, for the flight recorder's file.
//
// Kind:   owned by that thread. The recorder may copy `records` and `events` at any time.
// Limits: kFlightRecordsMax records of messages (128 KiB) and kFlightEventsMax events (64 KiB); the newest are kept.
//         kRareMax rare messages at once, and then one a second, get an event; more are counted as other messages are.
//         All messages of a peer that its role may not send are one kind.
// Why:    messages of one kind between the same two peers share a record for up to kTogether, or while their step stays
//         the same for up to kSameStep. So the records last for minutes. Rare events have a ring of their own: common
//         messages never overwrite them, and a flood of rare ones takes minutes.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/flight/flight_format.h"
#include "common/flight/flight_ring.h"
#include "common/flight/message_facts.h"
#include "common/flight/peer_names.h"
#include "common/wire/message.h"

namespace capstan {

class FlightLane {
 public:
  static constexpr Instant kTogether = std::chrono::seconds(2), kSameStep = std::chrono::seconds(60);
  // A record that has lasted for kSplits ends where the step is a multiple of the first number, and any record where it
  // is one of the second. So the records of two processes begin together there, and tell how their clocks differ.
  static constexpr Instant kSplits = std::chrono::seconds(1);
  static constexpr std::uint64_t kSplitSteps = 64, kStepsTogether = 1024;
  static constexpr int kRareMax = 32;
  using Records = FlightRing<FlightRecord, kFlightRecordsMax>;
  using Events = FlightRing<FlightEvent, kFlightEventsMax>;

  explicit FlightLane(std::string name) : name_(std::move(name)) {}

  // `now`: of CLOCK_MONOTONIC, as steady_clock has it.
  void Received(PeerId from, const Header& header, Instant now) { Add(FlightKind::kReceived, from, header, {}, now); }
  // A message that the peer's role may not send to this process, so that nothing in it is believed.
  void Refused(PeerId from, Instant now);
  // `result`: of Transport::Send.
  void Sent(PeerId to, const Header& header, Code result, Instant now) {
    Add(result == Code::kOk ? FlightKind::kSent : FlightKind::kNotSent, to, header, result, now);
  }
  void Connected(PeerId peer, const std::string& endpoint, std::string_view fallback, Instant now);
  void Disconnected(PeerId peer, Instant now);
  // Notes something that the loop or its core has done or seen. `position`: the step or version; 0 if it has none.
  void Note(FlightKind kind, std::string_view text, Instant now, std::uint64_t position = 0,
            Generation generation = {});

  const std::string& name() const { return name_; }
  const Records& records() const { return records_; }
  const Events& events() const { return events_; }

 private:
  static constexpr std::size_t kOpenMax = 1024;  // kinds of messages and peers that are counted at once
  static constexpr std::size_t kOpenWays = 8;    // neighbours that one of them may be in

  static constexpr std::uint64_t kNoRecord = UINT64_MAX;  // the newest message got an event

  // The newest record of one kind of message with one peer.
  struct Open {
    std::uint64_t peer = 0;
    std::uint64_t record = kNoRecord;
    std::uint64_t generation = 0, highest = 0;  // the newest generation, and the highest position in it
    FlightKind kind = FlightKind::kNone;
    std::uint8_t message = 0;
  };

  void Add(FlightKind kind, PeerId peer, const Header& header, Code result, Instant now);
  // Returns where this kind is counted, or where it is to be: in the place of the one whose record is the oldest.
  Open& OpenOf(FlightKind kind, std::uint8_t message, PeerId peer);
  bool TakeRare(Instant now);
  // Counts the message in the newest record of its kind. Returns false if it needs a new record.
  // `adds`: as MessageFacts has it.
  bool CountIn(const Open& open, const FlightRecord& added, bool adds);
  void AddEvent(const FlightRecord& record, std::string_view text);

  const std::string name_;
  Records records_;
  Events events_;
  PeerNames names_;
  std::array<Open, kOpenMax> open_ = {};
  Instant rare_since_{};
  std::int64_t rare_ = 0;  // events for rare messages since then, less one for each second
};

}  // namespace capstan
