// Outbox: the messages and log lines that a core returns. A core takes a message and the time. It owns no thread,
// socket, clock or disk, so that production and the simulated cluster run the same code.
//
// Kind:   value.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/wire/message.h"

namespace capstan {

enum class Severity { kInfo, kWarning, kError };

// A line for logs and the terminal.
struct Notice {
  Severity severity = Severity::kInfo;
  std::string text;
};

struct Outbox {
  std::vector<Envelope> envelopes;
  std::vector<Notice> notices;

  void Send(PeerId to, Header header, Slice payload = {}) {
    envelopes.push_back({to, {std::move(header), std::move(payload)}});
  }
  void Log(Severity severity, std::string text) { notices.push_back({severity, std::move(text)}); }
  void Clear() {
    envelopes.clear();
    notices.clear();
  }
};

}  // namespace capstan
