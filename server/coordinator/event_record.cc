#include "server/coordinator/event_record.h"

#include <bit>
#include <cstddef>

#include "common/base/crc32c.h"

namespace capstan::server {
namespace {

enum WireType : std::uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void PutVarint(std::uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

template <class Number>
void PutLittleEndian(Number value, std::string* out) {
  for (std::size_t i = 0; i < sizeof value; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

void PutKey(std::uint32_t field, WireType type, std::string* out) { PutVarint(field << 3 | type, out); }

void PutBytes(std::uint32_t field, std::string_view bytes, std::string* out) {
  PutKey(field, kBytes, out);
  PutVarint(bytes.size(), out);
  *out += bytes;
}

// Fields of Event: wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7.
std::string EventAt(double seconds, std::uint64_t step) {
  std::string event;
  PutKey(1, kFixed64, &event);
  PutLittleEndian(std::bit_cast<std::uint64_t>(seconds), &event);
  if (step == 0) return event;  // a field that is 0 is left out
  PutKey(2, kVarint, &event);
  PutVarint(step, &event);
  return event;
}

std::uint32_t MaskedCrc(std::string_view bytes) {
  const std::uint32_t crc = Crc32c(bytes);
  return std::rotr(crc, 15) + 0xA282EAD8U;
}

}  // namespace

std::string VersionEvent(double seconds) {
  std::string event = EventAt(seconds, 0);
  PutBytes(3, "brain.Event:2", &event);
  return event;
}

std::string StartEvent(double seconds, std::uint64_t step) {
  std::string event = EventAt(seconds, step), log;
  PutKey(1, kVarint, &log);  // SessionLog: status = 1
  PutVarint(1, &log);        // START
  PutBytes(7, log, &event);
  return event;
}

std::string ScalarsEvent(double seconds, std::uint64_t step, const std::vector<Scalar>& scalars) {
  std::string event = EventAt(seconds, step), summary;
  for (const Scalar& scalar : scalars) {
    std::string value;  // Summary.Value: tag = 1, simple_value = 2
    PutBytes(1, scalar.tag, &value);
    PutKey(2, kFixed32, &value);
    PutLittleEndian(std::bit_cast<std::uint32_t>(static_cast<float>(scalar.value)), &value);
    PutBytes(1, value, &summary);
  }
  PutBytes(5, summary, &event);
  return event;
}

std::string RecordOf(std::string_view event) {
  std::string record;
  PutLittleEndian(static_cast<std::uint64_t>(event.size()), &record);
  PutLittleEndian(MaskedCrc(record), &record);
  record += event;
  PutLittleEndian(MaskedCrc(event), &record);
  return record;
}

}  // namespace capstan::server
