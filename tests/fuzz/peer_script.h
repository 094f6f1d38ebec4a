// PeerScript: the bytes of an input as what peers do to a core, one action after the other. A message arrives as the
// wire brings it: as the bytes of a frame, or as fields that the input chooses and that are encoded and decoded.
//
// Kind:   a value of one run of a target.
// Limits: kInputBytesMax bytes and kActionsMax actions; what is beyond does not happen.
// Why:    frames reach all that a message can carry. Chosen fields lie within reach of valid ones, so that the first
//         checks do not turn them away.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/wire/actor.h"
#include "tests/common/wire/hostile_messages.h"
#include "tests/fuzz/input_bytes.h"

namespace capstan::fuzz {

class PeerScript {
 public:
  static constexpr std::size_t kInputBytesMax = 16384, kActionsMax = 400;

  PeerScript(std::string_view bytes, testing::Plausible plausible)
      : messages_(InputBytes(bytes.substr(0, kInputBytesMax)), std::move(plausible)) {}

  // Whether there is another action.
  bool Goes() { return !messages_.random().empty() && ++actions_ <= kActionsMax; }
  std::uint64_t Below(std::uint64_t bound) { return messages_.random().Below(bound); }
  bool Flag() { return Below(2) == 1; }
  Instant Pause() {
    static constexpr int kMilliseconds[] = {0, 20, 100, 500, 1100, 3500, 16000, 61000};
    return std::chrono::milliseconds(kMilliseconds[Below(8)]);
  }

  // The next bytes as a frame and its payload. Nothing: they are no header.
  std::optional<Message> Frame();
  // A message of any kind. Nothing: it cannot be sent.
  std::optional<Message> Any();
  // A sound message, or one that differs in a field.
  std::optional<Message> Near(Header sound);

 private:
  static std::optional<Message> Arrived(Message message);

  testing::HostileMessagesFrom<InputBytes> messages_;
  BufferPool pool_{256};
  std::size_t actions_ = 0;
};

// The bytes from which Frame reads this message, for seeds.
std::string FrameOf(const Message& message);

// A catalog of few small tensors: cores under attack cut blocks of 4 elements, of which a large one would make millions.
bool IsSmall(const std::vector<TensorSpec>& catalog);

// Requires that one call of a core answered with at most `envelopes_max` messages, each of which can be sent, and with
// lines that a person can read.
void CheckAnswers(const Outbox& out, std::size_t envelopes_max);

}  // namespace capstan::fuzz
