// Admission: which keys may connect to a process, and as whom.
//
// Kind:   an interface; any thread may use it.
// Why:    a transport asks in each handshake and for each message; where the keys are written is not its concern.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/keys/key_pair.h"
#include "common/keys/principal.h"

namespace capstan {

class Admission {
 public:
  using Time = std::chrono::sys_seconds;

  virtual ~Admission() = default;

  // Returns what the key may be at this time; nothing if it may not take part. May wait until that is known.
  virtual std::optional<Principal> Find(const PublicKey& key, Time now) const = 0;
  // A process with this key, at `from`, was not let in.
  virtual void NoteRefused(const PublicKey& key, const std::string& from, Time now) = 0;
  // Returns a line for each refusal since the last call, as far as they are kept.
  virtual std::vector<std::string> TakeRefusals() { return {}; }
  // Called about once a second by a thread of the transport.
  virtual void Refresh(std::chrono::steady_clock::time_point now) = 0;
  // Rises when Find may give another answer for a key that has connected.
  virtual std::uint64_t version() const = 0;
};

}  // namespace capstan
