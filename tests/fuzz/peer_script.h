// PeerScript: turns the bytes of an input into actions of a core's peers. A message arrives as from the wire: either
// the input has the bytes of a frame, or it chooses fields that are encoded and decoded.
//
// Kind:   a value of one run of a target.
// Limits: kInputBytesMax bytes and kActionsMax actions; the rest of an input is ignored.
// Why:    frames can carry everything that a message can. Chosen fields are close to valid ones, so that they pass
//         the first checks.
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

  // Whether there is another action. If so, counts it.
  bool Goes() { return !messages_.random().empty() && ++actions_ <= kActionsMax; }
  std::uint64_t Below(std::uint64_t bound) { return messages_.random().Below(bound); }
  bool Flag() { return Below(2) == 1; }
  Instant Pause() {
    static constexpr int kMilliseconds[] = {0, 20, 100, 500, 1100, 3500, 16000, 61000};
    return std::chrono::milliseconds(kMilliseconds[Below(8)]);
  }

  // Reads the next bytes as a frame and its payload. Returns nothing if they are no valid header.
  std::optional<Message> Frame();
  // Makes a random message of any kind. Returns nothing if the message cannot be sent.
  std::optional<Message> Any();
  // Returns the correct message `sound`, or one that differs in a field, with a random payload. Returns nothing if the
  // message cannot be sent.
  std::optional<Message> Near(Header sound);

 private:
  static std::optional<Message> Arrived(Message message);

  testing::HostileMessagesFrom<InputBytes> messages_;
  BufferPool pool_{256};
  std::size_t actions_ = 0;
};

// Returns the bytes from which Frame reads this message, for seeds.
std::string FrameOf(const Message& message);

// Whether the catalog has at most 256 elements in all, or is invalid. Cores under attack use blocks of 4 elements, so a
// large tensor would have millions of blocks.
bool IsSmall(const std::vector<TensorSpec>& catalog);

// Requires that one call of a core answered with at most `envelopes_max` messages, that each of these can be sent, and
// that the log lines are few and of bounded length.
void CheckAnswers(const Outbox& out, std::size_t envelopes_max);

}  // namespace capstan::fuzz
