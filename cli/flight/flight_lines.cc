#include "cli/flight/flight_lines.h"

#include <nlohmann/json.hpp>
#include <array>
#include <cstdio>
#include <ctime>

#include "cli/flight/message_detail.h"
#include "common/base/utf8.h"
#include "common/flight/flight_text.h"
#include "common/flight/message_facts.h"

namespace capstan::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kSecondNs = 1'000'000'000;

// Returns the time of day, such as 12:03:04.123456.
std::string DayTime(std::int64_t time_ns) {
  const std::time_t seconds = time_ns / kSecondNs;
  tm day{};
  localtime_r(&seconds, &day);
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%02d:%02d:%02d.%06d", day.tm_hour, day.tm_min, day.tm_sec,
                static_cast<int>(std::abs(time_ns % kSecondNs) / 1000));
  return text.data();
}

std::string Seconds(std::int64_t ns) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3f s", static_cast<double>(ns) / 1e9);
  return text.data();
}

void AddPart(std::string* line, const std::string& part) {
  if (!part.empty()) *line += (line->empty() ? "" : ", ") + part;
}

std::string PositionText(const FlightRecord& record, const std::string& word) {
  if (record.position_span == 0) return word + " " + std::to_string(record.position);
  return word + "s " + std::to_string(record.position) + " to " +
         std::to_string(record.position + record.position_span) + " (" + std::to_string(record.last_count) +
         " of the last)";
}

// Returns what a message says, such as: step 12, generation 2, blocks 8.
std::string MessageText(const FlightRecord& record) {
  const MessageDetail detail = DetailOf(record);
  std::string text;
  if (!detail.position.empty()) AddPart(&text, PositionText(record, detail.position));
  if (record.generation != 0) AddPart(&text, "generation " + std::to_string(record.generation));
  if (!detail.number.empty() && record.number != 0) AddPart(&text, detail.number + " " + std::to_string(record.number));
  AddPart(&text, detail.word);
  if (record.count > 1) AddPart(&text, "within " + Seconds(std::int64_t{record.lasted_us} * 1000));
  return text;
}

std::string MessageLine(const FlightRecord& record) {
  const bool received = record.kind == FlightKind::kReceived;
  std::string line = KindWord(record.kind) + " " + std::string(MessageName(record.message));
  if (record.count > 1) line += " x" + std::to_string(record.count);
  line += received ? " from " : " to ";
  line += std::string(TextIn(record.peer));
  const std::string text = MessageText(record);
  return text.empty() ? line : line + ": " + text;
}

std::string RefusedLine(const FlightRecord& record) {
  return KindWord(record.kind) + " x" + std::to_string(record.count) + " from " + std::string(TextIn(record.peer)) +
         ": its role may not send such messages here";
}

std::string NoteLine(const FlightEvent& event) {
  const FlightRecord& record = event.record;
  const std::string text(TextIn(event.text));
  std::string line = KindWord(record.kind);
  if (record.kind == FlightKind::kConnects) return "connects to " + std::string(TextIn(record.peer));
  if (record.kind == FlightKind::kDisconnects) return "disconnects from " + std::string(TextIn(record.peer));
  if (record.kind == FlightKind::kRefused) return RefusedLine(record);
  if (record.kind == FlightKind::kWaits) line += text.empty() ? " for nobody any more" : " for " + text;
  if (record.kind == FlightKind::kSnapshotBegins || record.kind == FlightKind::kSnapshotEnds) {
    line += ": version " + std::to_string(record.position);
  } else if (record.generation != 0) {
    line += " (at " + std::to_string(record.position) + " of generation " + std::to_string(record.generation) + ")";
  }
  return record.kind == FlightKind::kWaits || text.empty() ? line : line + ": " + text;
}

std::string EventLine(const FlightEvent& event) {
  const std::string text(TextIn(event.text));
  if (!IsMessage(event.record.kind)) return NoteLine(event);
  return MessageLine(event.record) + (text.empty() ? "" : ": " + text);
}

// Returns the process's name, with that of the thread where it differs.
std::string Whose(const FlightHistory& history, const FlightEntry& entry) {
  const std::string& process = history.processes[entry.process].name;
  return entry.track == process ? process : process + " " + entry.track;
}

std::string ReasonText(const FlightFileHeader& header) {
  switch (header.reason) {
    case FlightReason::kRequest: return "asked for";
    case FlightReason::kFailure: return "it failed: " + std::string(TextIn(header.why));
    case FlightReason::kCrash: return "it crashed by signal " + std::to_string(header.signal);
    case FlightReason::kNone: break;
  }
  return "unknown";
}

std::string ClockText(const ClockOffset& clock) {
  if (clock.error_ns == std::int64_t{0}) return "the same clock";
  if (!clock.error_ns) return "no messages bound its clock: by its machine's time of day";
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "clock moved by %+.3f ms, wrong by at most %.3f ms",
                static_cast<double>(clock.offset_ns) / 1e6, static_cast<double>(*clock.error_ns) / 1e6);
  return text.data();
}

std::int64_t WrittenAt(const FlightProcess& process) { return static_cast<std::int64_t>(process.header.realtime_ns); }

std::string ProcessLine(const FlightProcess& process, const ClockOffset& clock) {
  std::uint64_t overwritten = 0;
  for (const FlightTrack& track : process.tracks) overwritten += track.overwritten;
  std::string line = "# " + process.name + ", process " + std::to_string(process.header.pid) + ": " +
                     ReasonText(process.header) + "; written at " + DayTime(WrittenAt(process)) + "; " +
                     ClockText(clock);
  if (overwritten > 0) line += "; " + std::to_string(overwritten) + " older events were overwritten";
  return line;
}

Json EventJson(const FlightHistory& history, const FlightEntry& entry) {
  const FlightRecord& record = entry.event.record;
  Json json = {{"time_ns", entry.time_ns},
               {"process", history.processes[entry.process].name},
               {"thread", entry.track},
               {"kind", KindWord(record.kind)}};
  if (IsMessage(record.kind)) {
    const MessageDetail detail = DetailOf(record);
    json["message"] = MessageName(record.message);
    json["count"] = record.count;
    json["lasted_us"] = record.lasted_us;
    if (!detail.position.empty()) {
      json[detail.position] = record.position;
      json["last_" + detail.position] = record.position + record.position_span;
      json["of_last"] = record.last_count;
    }
    if (!detail.number.empty()) json[detail.number] = record.number;
    if (!detail.word.empty()) json["says"] = detail.word;
  } else if (record.kind == FlightKind::kRefused) {
    json["count"] = record.count;
    json["lasted_us"] = record.lasted_us;
  } else if (record.position != 0) {
    json["position"] = record.position;
  }
  if (record.generation != 0) json["generation"] = record.generation;
  if (record.peer[0] != '\0') json["peer"] = TextIn(record.peer);
  if (entry.event.text[0] != '\0') json["text"] = TextIn(entry.event.text);
  return json;
}

Json ProcessJson(const FlightProcess& process, const ClockOffset& clock) {
  return {{"name", process.name},
          {"pid", process.header.pid},
          {"file", process.file},
          {"written_ns", WrittenAt(process)},
          {"written_because", ReasonText(process.header)},
          {"clock_offset_ns", clock.offset_ns},
          {"clock_error_ns", clock.error_ns ? Json(*clock.error_ns) : Json()}};
}

}  // namespace

std::vector<std::string> LinesOf(const FlightHistory& history, const FlightSummary& summary) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < history.processes.size(); ++i) {
    lines.push_back(ProcessLine(history.processes[i], history.clocks[i]));
  }
  for (const FlightEntry& entry : history.entries) {
    lines.push_back(DayTime(entry.time_ns) + "  " + Whose(history, entry) + "  " + EventLine(entry.event));
  }
  for (const LastHeard& heard : summary.last_heard) {
    const FlightRecord& record = heard.entry.event.record;
    lines.push_back("# " + std::string(TextIn(record.peer)) + " was last heard " + Seconds(heard.before_newest_ns) +
                    " before the newest event, at " + DayTime(heard.entry.end_ns()) + ", by " +
                    Whose(history, heard.entry) + ": " + std::string(MessageName(record.message)) + ", " +
                    MessageText(record));
  }
  for (const FlightEntry& entry : summary.waits) {
    lines.push_back("# " + Whose(history, entry) + " waits for " + std::string(TextIn(entry.event.text)) + ", since " +
                    DayTime(entry.time_ns) + " or longer");
  }
  for (std::string& line : lines) line = PrintableLine(line);
  return lines;
}

std::string JsonOf(const FlightHistory& history, const FlightSummary& summary) {
  Json json = {
      {"processes", Json::array()}, {"events", Json::array()}, {"last_heard", Json::array()}, {"waits", Json::array()}};
  for (std::size_t i = 0; i < history.processes.size(); ++i) {
    json["processes"].push_back(ProcessJson(history.processes[i], history.clocks[i]));
  }
  for (const FlightEntry& entry : history.entries) json["events"].push_back(EventJson(history, entry));
  for (const LastHeard& heard : summary.last_heard) {
    Json one = EventJson(history, heard.entry);
    one["before_newest_ns"] = heard.before_newest_ns;
    json["last_heard"].push_back(std::move(one));
  }
  for (const FlightEntry& entry : summary.waits) json["waits"].push_back(EventJson(history, entry));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace capstan::cli
