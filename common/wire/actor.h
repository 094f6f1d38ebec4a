// Outbox: the messages, log lines and audit entries that a core returns. A core takes a message and the time. It owns
// no thread, socket, clock or disk, so that production and the simulated cluster run the same code.
//
// Kind:   value.
#pragma once

#include <cstddef>
#include <cstdint>
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

// kLeft: a process left by itself. kLost: it died, or was silent for too long. kSetAside: it takes part no more.
// kStarted: the coordinator began the job, or took it up again. kEnded: the job is done, stopped, or has failed.
enum class AuditKind : std::uint8_t {
  kJoined,
  kRefused,
  kTookOver,
  kLeft,
  kRecovery,
  kSnapshotDeleted,
  kLost,
  kSetAside,
  kStarted,
  kSnapshot,
  kEnded
};
inline constexpr std::size_t kAuditKinds = 11;

// An entry records an event that changed who takes part in the job or what the job keeps.
struct AuditEntry {
  AuditKind kind = AuditKind::kJoined;
  std::string text;
  std::string who = {};  // the principal of the peer that the entry is about; empty: it is about no peer
};

struct Outbox {
  std::vector<Envelope> envelopes;
  std::vector<Notice> notices;
  std::vector<AuditEntry> audit;

  void Send(PeerId to, Header header, Slice payload = {}) {
    envelopes.push_back({to, {std::move(header), std::move(payload)}});
  }
  // `file` and `line`: those of the call; leave them out.
  void Log(Severity severity, std::string text, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    notices.push_back({severity, std::move(text), file, line});
  }
  // `who`: as AuditEntry has it.
  void Audit(AuditKind kind, std::string text, std::string who = {}) {
    audit.push_back({kind, std::move(text), std::move(who)});
  }
  void LogAndAudit(Severity severity, AuditKind kind, std::string text, std::string who = {},
                   const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    Audit(kind, text, std::move(who));
    Log(severity, std::move(text), file, line);
  }
  void Clear() {
    envelopes.clear();
    notices.clear();
    audit.clear();
  }
};

}  // namespace capstan
