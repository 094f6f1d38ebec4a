// FlightRecord, FlightEvent, FlightFileHeader, FlightLaneHeader: the records of a flight recorder, and its file.
//
// Kind:   values without pointers; a file has their bytes as they lie in memory.
// Limits: kFlightLanesMax lanes; a text of an event has at most kFlightTextBytesMax bytes.
// Why:    a record of fixed size is written without memory or a lock, and read back without parsing.
//
// A file is a FlightFileHeader and, for each lane, a FlightLaneHeader, its records and its events. Each ring lies as in
// memory: entry n is at n modulo the capacity.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "common/base/types.h"

namespace capstan {

inline constexpr std::array<char, 8> kFlightMagic = {'c', 'a', 'p', 'f', 'l', 'i', 'g', 'h'};
inline constexpr std::uint32_t kFlightVersion = 1;
inline constexpr std::size_t kFlightLanesMax = 64;
inline constexpr std::size_t kFlightNameBytesMax = 80;   // of a process or a lane, with a zero byte
inline constexpr std::size_t kFlightPeerBytesMax = 20;   // a longer name of a peer is shortened
inline constexpr std::size_t kFlightTextBytesMax = 192;  // a longer text is cut
inline constexpr std::size_t kFlightRecordsMax = 2048, kFlightEventsMax = 256;  // of a lane; powers of two

enum class FlightKind : std::uint8_t {
  kNone = 0,
  kReceived = 1,
  kSent = 2,
  kNotSent = 3,  // the transport did not take the message; `code` is a Code
  kConnects = 4,
  kDisconnects = 5,
  kInfo = 6,  // a line of the log, and the two after it
  kWarning = 7,
  kError = 8,
  kState = 9,   // a change of the core's state
  kWaits = 10,  // the text names those that are waited for; none: the wait has ended
  kSnapshotBegins = 11,
  kSnapshotEnds = 12,
  kRefused = 13,  // messages that the peer's role may not send to this process; of any type
};
inline constexpr std::uint8_t kFlightKinds = 14;
constexpr bool IsMessage(FlightKind kind) { return kind >= FlightKind::kReceived && kind <= FlightKind::kNotSent; }

// Set if the process had sent messages of this kind to this peer before, all of them with lower positions. So `at_ns`
// is when the first message with this position was sent or received.
inline constexpr std::uint8_t kFlightBegins = 1;

// A message or, with `count` above 1, several messages of one kind between two peers.
struct FlightRecord {
  std::uint64_t at_ns = 0;          // when the first happened, by CLOCK_MONOTONIC
  std::uint32_t lasted_us = 0;      // from the first to the last
  std::uint32_t count = 0;          // how many there were
  std::uint64_t position = 0;       // the first message's step or version
  std::uint32_t position_span = 0;  // the highest position is `position` + this
  std::uint32_t last_count = 0;     // how many there were of the highest position
  std::uint32_t generation = 0;     // the largest number: that generation or a later one
  FlightKind kind = FlightKind::kNone;
  std::uint8_t message = 0;  // index in MessageTypes
  std::uint8_t code = 0;     // what MessageFacts::code says
  std::uint8_t flags = 0;
  std::uint32_t number = 0;                         // what MessageFacts::number says
  std::array<char, kFlightPeerBytesMax> peer = {};  // the peer's name, filled up with zero bytes; empty: none
};
static_assert(sizeof(FlightRecord) == 64 && std::is_trivially_copyable_v<FlightRecord>);

// Something rare: a change of state, a line of the log, or a message with a text of its own.
struct FlightEvent {
  FlightRecord record;
  std::array<char, kFlightTextBytesMax> text = {};  // filled up with zero bytes
};
static_assert(sizeof(FlightEvent) == 256 && std::is_trivially_copyable_v<FlightEvent>);

enum class FlightReason : std::uint32_t { kNone = 0, kRequest = 1, kFailure = 2, kCrash = 3 };

struct FlightFileHeader {
  std::array<char, 8> magic = {};
  std::uint32_t version = 0;
  std::uint32_t header_bytes = 0;
  std::uint64_t message_types = 0;  // hash of the names of all message types, in order
  std::uint64_t writes = 0;         // how often the process has written its file, with this time
  std::uint64_t hash = 0;           // of all bytes after this header
  std::uint64_t clock = 0;          // hash that names the clock: the same for processes with one CLOCK_MONOTONIC
  std::uint64_t monotonic_ns = 0, realtime_ns = 0;  // the same moment, by two clocks
  std::uint32_t pid = 0;
  FlightReason reason = FlightReason::kNone;
  std::uint32_t signal = 0;  // kCrash: its number
  std::uint32_t lanes = 0;
  std::array<char, kFlightNameBytesMax> process = {};
  std::array<char, kFlightTextBytesMax> why = {};  // kFailure: the error
};
static_assert(sizeof(FlightFileHeader) == 352 && std::is_trivially_copyable_v<FlightFileHeader>);

struct FlightLaneHeader {
  std::array<char, kFlightNameBytesMax> name = {};
  std::uint64_t records_written = 0, events_written = 0;  // since the process began
  std::uint32_t record_capacity = 0, event_capacity = 0;  // entries that follow
};
static_assert(sizeof(FlightLaneHeader) == 104 && std::is_trivially_copyable_v<FlightLaneHeader>);

}  // namespace capstan
