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

// A line for logs and the terminal. Lines that one place in the code logs are of one kind, for NoticeLimit.
struct Notice {
  Severity severity = Severity::kInfo;
  std::string text;
  const char* file = "";  // the place
  int line = 0;
};

struct Outbox {
  std::vector<Envelope> envelopes;
  std::vector<Notice> notices;

  void Send(PeerId to, Header header, Slice payload = {}) {
    envelopes.push_back({to, {std::move(header), std::move(payload)}});
  }
  // `file` and `line`: those of the call; leave them out.
  void Log(Severity severity, std::string text, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    notices.push_back({severity, std::move(text), file, line});
  }
  void Clear() {
    envelopes.clear();
    notices.clear();
  }
};

}  // namespace capstan
