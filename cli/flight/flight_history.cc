#include "cli/flight/flight_history.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "common/config/suggestion.h"
#include "common/flight/flight_text.h"
#include "common/flight/message_facts.h"
#include "common/flight/peer_names.h"

namespace capstan::cli {
namespace {

constexpr std::array<std::string_view, kFlightKinds> kWords = {
    "nothing", "received", "sent",  "not-sent", "connects",        "disconnects",   "info",
    "warning", "error",    "state", "waits",    "snapshot-begins", "snapshot-ends", "refused"};

bool Passes(const std::vector<std::string>& words, std::string_view one, std::string_view other) {
  return words.empty() ||
         std::any_of(words.begin(), words.end(), [&](const std::string& word) { return word == one || word == other; });
}

std::int64_t NewestOf(const std::vector<FlightEntry>& entries) {
  std::int64_t newest = 0;
  for (const FlightEntry& entry : entries) newest = std::max(newest, entry.end_ns());
  return newest;
}

}  // namespace

std::string KindWord(FlightKind kind) { return std::string(kWords[static_cast<std::size_t>(kind) % kWords.size()]); }

Status CheckKind(const std::string& kind) {
  std::vector<std::string_view> known(kWords.begin() + 1, kWords.end());
  for (std::size_t type = 0; !MessageName(type).empty(); ++type) known.push_back(MessageName(type));
  if (std::find(known.begin(), known.end(), kind) != known.end()) return {};
  std::string list;
  for (const std::string_view word : known) list += (list.empty() ? "" : ", ") + std::string(word);
  return Invalid("--kind " + kind + ": no event is of this kind" + DidYouMean(kind, known) + "; there are " + list);
}

FlightHistory MergeFlights(std::vector<FlightProcess> processes) {
  FlightHistory history;
  history.clocks = AlignClocks(processes);
  history.processes = std::move(processes);
  if (history.processes.empty()) return history;
  const FlightFileHeader& reference = history.processes[ReferenceOf(history.processes)].header;
  const auto to_day = static_cast<std::int64_t>(reference.realtime_ns - reference.monotonic_ns);
  for (std::size_t i = 0; i < history.processes.size(); ++i) {
    const std::int64_t offset = history.clocks[i].offset_ns + to_day;
    for (const FlightTrack& track : history.processes[i].tracks) {
      for (const FlightEvent& event : track.events) {
        const auto at = static_cast<std::int64_t>(event.record.at_ns);
        history.entries.push_back({i, track.name, at + offset, event});
      }
    }
  }
  std::stable_sort(history.entries.begin(), history.entries.end(),
                   [](const FlightEntry& a, const FlightEntry& b) { return a.time_ns < b.time_ns; });
  return history;
}

void Filter(const FlightFilter& filter, FlightHistory* history) {
  const std::int64_t newest = NewestOf(history->entries);
  std::erase_if(history->entries, [&](const FlightEntry& entry) {
    const FlightRecord& record = entry.event.record;
    const std::string_view message = IsMessage(record.kind) ? MessageName(record.message) : "";
    const double age = static_cast<double>(newest - entry.end_ns()) / 1e9;
    return !Passes(filter.processes, history->processes[entry.process].name, entry.track) ||
           !Passes(filter.kinds, KindWord(record.kind), message) || (filter.last_seconds && age > *filter.last_seconds);
  });
}

std::vector<LastHeard> FindLastHeard(const FlightHistory& history) {
  std::map<std::string, FlightEntry> newest;
  for (const FlightEntry& entry : history.entries) {
    const std::string peer(TextIn(entry.event.record.peer));
    if (entry.event.record.kind != FlightKind::kReceived || peer.starts_with(PeerNames::kUnnamed)) continue;
    const auto [known, is_new] = newest.try_emplace(peer, entry);
    if (!is_new && entry.end_ns() >= known->second.end_ns()) known->second = entry;
  }
  const std::int64_t now = NewestOf(history.entries);
  std::vector<LastHeard> heard;
  for (const auto& [peer, entry] : newest) heard.push_back({entry, now - entry.end_ns()});
  std::stable_sort(heard.begin(), heard.end(),
                   [](const LastHeard& a, const LastHeard& b) { return a.before_newest_ns > b.before_newest_ns; });
  return heard;
}

std::vector<FlightEntry> FindOpenWaits(const FlightHistory& history) {
  std::map<std::pair<std::size_t, std::string>, FlightEntry> newest;
  for (const FlightEntry& entry : history.entries) {
    if (entry.event.record.kind == FlightKind::kWaits) newest[{entry.process, entry.track}] = entry;
  }
  std::vector<FlightEntry> open;
  for (const auto& [track, entry] : newest) {
    if (!TextIn(entry.event.text).empty()) open.push_back(entry);
  }
  return open;
}

}  // namespace capstan::cli
