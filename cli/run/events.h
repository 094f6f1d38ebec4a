// EventWriter, ParseEvent: what a process tells the launcher that started it: that it is ready and where, that it is
// alive, that somebody else asked it to end, what people should know, why it failed.
//
// Kind:   a writer is shared: any thread. One line of JSON per event, through an inherited pipe.
// Limits: kEventBytesMax bytes a line: text is cut to that, and addresses are left out. A launcher that does not read
//         loses whole events and never a part of one; nobody waits for it.
// Why:    ports are chosen by the system, and the reason of a failure is known to one process of many.
#pragma once

#include <climits>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/wire/actor.h"

namespace capstan::cli {

inline constexpr int kBeatMs = 1000;
inline constexpr std::size_t kEventBytesMax = PIPE_BUF;  // the system writes so much in one piece, or nothing

struct Event {
  enum class Kind { kReady, kBeat, kStopAsked, kNotice, kFailed, kNone } kind = Kind::kNone;
  std::vector<std::string> addresses;  // kReady: host:port of the coordinator, or of a server's shards
  std::string metrics;                 // kReady: host:port
  Severity severity = Severity::kInfo;
  std::string text;  // kNotice, kFailed
};

// A line of at most kEventBytesMax bytes; empty for kNone.
std::string PrintEvent(Event event);
// kNone for what is not an event.
Event ParseEvent(std::string_view line);

class EventWriter {
 public:
  // Negative: there is no launcher.
  explicit EventWriter(int fd);

  bool launched() const { return fd_ >= 0; }
  void Ready(std::vector<std::string> addresses, std::string metrics) const;
  void Beat() const;       // every kBeatMs
  void StopAsked() const;  // by a signal that is not the launcher's
  void Notice(Severity severity, std::string text) const;
  void Failed(std::string text) const;

 private:
  void Write(const Event& event) const;
  const int fd_;
};

}  // namespace capstan::cli
