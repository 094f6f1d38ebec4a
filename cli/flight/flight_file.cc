#include "cli/flight/flight_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>

#include "common/base/hash.h"
#include "common/base/utf8.h"
#include "common/flight/flight_text.h"
#include "common/flight/message_facts.h"

namespace capstan::cli {
namespace {

constexpr std::size_t kLaneBytesMax =
    sizeof(FlightLaneHeader) + kFlightRecordsMax * sizeof(FlightRecord) + kFlightEventsMax * sizeof(FlightEvent);
constexpr std::size_t kFileBytesMax = sizeof(FlightFileHeader) + kFlightLanesMax * kLaneBytesMax;

// Copies a T from the front of `bytes` and removes it there. Returns false if they are too few.
template <class T>
bool Take(std::string_view* bytes, T* value) {
  if (bytes->size() < sizeof(T)) return false;
  std::memcpy(static_cast<void*>(value), bytes->data(), sizeof(T));
  bytes->remove_prefix(sizeof(T));
  return true;
}

// No clock has reached these times. They keep sums of times in range.
constexpr std::uint64_t kMonotonicMax = 1'000'000'000'000'000'000, kRealtimeMax = 4'000'000'000'000'000'000;

// A record that was copied while it was being written may be of two messages; most of those are recognised here.
bool IsSound(const FlightRecord& record) {
  const auto kind = static_cast<std::uint8_t>(record.kind);
  return kind != 0 && kind < kFlightKinds && !MessageName(record.message).empty() && record.count > 0 &&
         record.last_count <= record.count && record.at_ns <= kMonotonicMax;
}

FlightEvent EventOf(const FlightEvent& event) { return event; }
FlightEvent EventOf(const FlightRecord& record) { return {record, {}}; }

// Takes a ring of T, of which `written` were written since the process began. Returns false if bytes are missing.
template <class T>
bool TakeRing(std::string_view* bytes, std::uint32_t capacity, std::uint64_t written, FlightTrack* track) {
  const std::uint64_t first = written > capacity ? written - capacity : 0;
  track->overwritten += first;
  std::vector<FlightEvent> ring(capacity);
  for (std::uint32_t i = 0; i < capacity; ++i) {
    T value;
    if (!Take(bytes, &value)) return false;
    ring[i] = EventOf(value);
  }
  for (std::uint64_t number = first; number < written; ++number) {
    const FlightEvent& event = ring[number % capacity];
    if (IsSound(event.record)) track->events.push_back(event);
  }
  return true;
}

bool TakeTrack(std::string_view* bytes, FlightTrack* track) {
  FlightLaneHeader header;
  if (!Take(bytes, &header) || header.record_capacity == 0 || header.record_capacity > kFlightRecordsMax ||
      header.event_capacity == 0 || header.event_capacity > kFlightEventsMax) {
    return false;
  }
  track->name = TextIn(header.name);
  return TakeRing<FlightRecord>(bytes, header.record_capacity, header.records_written, track) &&
         TakeRing<FlightEvent>(bytes, header.event_capacity, header.events_written, track);
}

Status Damaged(const std::string& file) {
  return Corrupt(file + ": it is cut or damaged, or was just being written; try again, or leave it out");
}

Status CheckHeader(const FlightFileHeader& header, const std::string& file) {
  if (header.version != kFlightVersion || header.header_bytes != sizeof header ||
      header.message_types != HashOfMessageTypes()) {
    return Invalid(file + ": another version of capstan has written it; show it with the capstan of that version");
  }
  const bool sound =
      header.lanes <= kFlightLanesMax && header.monotonic_ns <= kMonotonicMax && header.realtime_ns <= kRealtimeMax;
  return sound ? Status() : Damaged(file);
}

std::string ReadBytes(const std::string& file, std::size_t most) {
  std::ifstream in(file, std::ios::binary);
  std::string bytes(most, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(most));
  bytes.resize(static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  return bytes;
}

}  // namespace

Result<FlightProcess> ParseFlightFile(std::string_view bytes, const std::string& file) {
  if (bytes.empty()) {
    return Status(Code::kBusy,
                  file + ": its process was not asked for its events, or it was killed before it could write them");
  }
  FlightProcess process;
  std::string_view rest = bytes;
  if (!Take(&rest, &process.header) || process.header.magic != kFlightMagic) {
    return Invalid(file + ": this is no file of a flight recorder; give those in a run directory's flight/");
  }
  CAPSTAN_RETURN_IF_ERROR(CheckHeader(process.header, file));
  process.file = file;
  process.name = TextIn(process.header.process);
  std::uint64_t hash = 0;
  for (std::uint32_t i = 0; i < process.header.lanes; ++i) {
    const std::string_view before = rest;
    if (!TakeTrack(&rest, &process.tracks.emplace_back())) return Damaged(file);
    hash = Hash64(std::as_bytes(std::span(before.substr(0, before.size() - rest.size()))), hash);
  }
  if (!rest.empty() || hash != process.header.hash) return Damaged(file);
  return process;
}

Result<FlightProcess> ReadFlightFile(const std::string& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return Invalid(file + ": there is no such file");
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  if (error) return Invalid(file + ": cannot be read: " + error.message());
  if (size > kFileBytesMax) return Invalid(file + ": it is too large for a file of a flight recorder");
  if (std::ifstream in(file, std::ios::binary); !in)
    return Invalid(file + ": cannot be opened: " + std::strerror(errno));
  return ParseFlightFile(ReadBytes(file, static_cast<std::size_t>(size)), file);
}

std::uint64_t WritesIn(const std::string& file) {
  if (std::error_code error; !std::filesystem::is_regular_file(file, error)) return 0;  // a pipe would block
  FlightFileHeader header;
  const std::string bytes = ReadBytes(file, sizeof header);
  std::string_view rest = bytes;
  return Take(&rest, &header) && header.magic == kFlightMagic ? header.writes : 0;
}

}  // namespace capstan::cli
