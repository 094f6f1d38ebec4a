// EventWriter, ParseEvent: the events that a process sends to the launcher that started it: it is ready, and its
// addresses; it is alive; it got a stop signal from elsewhere; notices for the user; the reason of a failure.
//
// Kind:   any thread may use a writer. Each event is one line of JSON in an inherited pipe.
// Limits: kEventBytesMax bytes a line: the text is cut to fit, and addresses are left out. If a launcher does not read,
//         whole events are lost, never a part of one, and the writer does not wait.
// Why:    the system chooses ports, and only one of many processes knows why it failed.
#pragma once

#include <climits>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/wire/actor.h"

namespace capstan::cli {

inline constexpr int kBeatMs = 1000;
inline constexpr std::size_t kEventBytesMax = PIPE_BUF;  // the system writes a line of this length whole or not at all

struct Event {
  enum class Kind { kReady, kBeat, kStopAsked, kNotice, kFailed, kNone } kind = Kind::kNone;
  std::vector<std::string> addresses;  // kReady: host:port of the coordinator, or of a server's shards
  std::string metrics;                 // kReady: host:port, or https://host:port
  Severity severity = Severity::kInfo;
  std::string text;  // kNotice, kFailed
};

// Returns a line of at most kEventBytesMax bytes; empty for kNone.
std::string PrintEvent(Event event);
// Returns an event of kind kNone if the line is not an event.
Event ParseEvent(std::string_view line);

class EventWriter {
 public:
  // `fd`: the pipe to the launcher; negative: there is no launcher.
  explicit EventWriter(int fd);

  bool launched() const { return fd_ >= 0; }
  void Ready(std::vector<std::string> addresses, std::string metrics) const;
  void Heartbeat() const;  // every kBeatMs
  void StopAsked() const;  // a stop signal arrived that is not the launcher's
  void Notice(Severity severity, std::string text) const;
  void Failed(std::string text) const;

 private:
  void Write(const Event& event) const;
  const int fd_;
};

}  // namespace capstan::cli
