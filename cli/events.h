// EventWriter, ParseEvent: what a process tells the launcher that started it: that it is ready and where, that it is
// alive, what people should know, why it failed.
//
// Kind:   a writer is shared: any thread. One line of JSON per event, through an inherited pipe.
// Limits: a launcher that does not read loses events; nobody waits for it.
// Why:    ports are chosen by the system, and the reason of a failure is known to one process of many.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/actor.h"

namespace capstan::cli {

inline constexpr int kBeatMs = 1000;

struct Event {
  enum class Kind { kReady, kBeat, kNotice, kFailed, kNone } kind = Kind::kNone;
  std::vector<std::string> addresses;  // kReady: host:port of the coordinator, or of a server's shards
  std::string metrics;                 // kReady: host:port
  Severity severity = Severity::kInfo;
  std::string text;  // kNotice, kFailed
};

std::string PrintEvent(const Event& event);
// kNone for what is not an event.
Event ParseEvent(std::string_view line);

class EventWriter {
 public:
  // Negative: there is no launcher.
  explicit EventWriter(int fd);

  bool launched() const { return fd_ >= 0; }
  void Ready(std::vector<std::string> addresses, std::string metrics) const;
  void Beat() const;  // the coordinator does, every kBeatMs
  void Notice(Severity severity, std::string text) const;
  void Failed(std::string text) const;

 private:
  void Write(const Event& event) const;
  const int fd_;
};

}  // namespace capstan::cli
