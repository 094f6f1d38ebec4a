#include "cli/flight/message_detail.h"

#include <capstan/status.h>

#include <array>

#include "common/wire/messages.h"

namespace capstan::cli {
namespace {

template <class... Ts>
bool IsOneOf(std::uint8_t type) {
  return ((type == MessageTypes::IndexOf<Ts>()) || ...);
}

std::string PositionWord(std::uint8_t type) {
  if (IsOneOf<Pull, Weights, Published, Pin, SnapshotDone, Hello, Reset, Fetch, Fetched>(type)) return "version";
  if (IsOneOf<ClockUpdate>(type)) return "clock";
  const bool has_step = IsOneOf<Commit, Redo, Prepared, Committed, View, Heartbeat, Push, EndSlot, CoverageQuery,
                                Staged, UploadBlock, UploadAck, Error, Disagreement>(type);
  return has_step ? "step" : "";
}

std::string NumberWord(std::uint8_t type) {
  if (IsOneOf<Pull, UploadAck>(type)) return "blocks";
  if (IsOneOf<Staged, CoverageQuery>(type)) return "nodes";
  if (IsOneOf<Commit, Redo, Prepared, Published, Weights>(type)) return "attempt";
  if (IsOneOf<View>(type)) return "slots";
  if (IsOneOf<Heartbeat>(type)) return "shards missing";
  return IsOneOf<Hello>(type) ? "snapshot parts" : "";
}

std::string CodeWord(std::uint8_t type, std::uint8_t code) {
  constexpr std::array kPhases = {"gathering", "running", "done", "failed"};
  if (IsOneOf<Commit, Published>(type))
    return code == static_cast<std::uint8_t>(StepAction::kSkip) ? "skips" : "applies";
  if (IsOneOf<View>(type)) return code < kPhases.size() ? kPhases[code] : "";
  if (IsOneOf<Heartbeat>(type)) return code != 0 ? "computes" : "waits for others";
  if (IsOneOf<Hello>(type)) return code != 0 ? "serves" : "does not serve";
  return IsOneOf<Error>(type) ? CodeName(static_cast<Code>(code)) : "";
}

}  // namespace

MessageDetail DetailOf(const FlightRecord& record) {
  const bool failed = record.kind == FlightKind::kNotSent;
  return {PositionWord(record.message), NumberWord(record.message),
          failed ? CodeName(static_cast<Code>(record.code)) : CodeWord(record.message, record.code)};
}

}  // namespace capstan::cli
