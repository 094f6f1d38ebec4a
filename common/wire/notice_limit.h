// NoticeLimit: hands on the log lines of a core, but of each kind at most one a second for long.
//
// Kind:   owned by a loop's thread, which has the time.
// Limits: kBurst lines of a kind at once; then one a second, the newest, with the number of lines before it. There are
//         as many kinds as the code has calls of Outbox::Log.
// Why:    a peer that repeats a refused message must not fill a disk or a terminal.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "common/wire/actor.h"

namespace capstan {

class NoticeLimit {
 public:
  static constexpr int kBurst = 8;
  static constexpr Instant kPeriod = std::chrono::seconds(1);

  // `hand_on` may be empty.
  explicit NoticeLimit(std::function<void(const Notice&)> hand_on) : hand_on_(std::move(hand_on)) {}

  // Hands the line on, or holds it back.
  void Take(const Notice& notice, Instant now);
  // Hands on lines that were held back long enough. Call it several times a second.
  void Look(Instant now);
  // Hands on all lines that are held back. Call it at the end.
  void Flush();

 private:
  struct Kind {
    Instant begin{};               // of the present period
    int passed = 0;                // lines handed on in it
    std::uint64_t held = 0;        // lines held back in it
    std::optional<Notice> newest;  // of those
  };

  void HandOnHeld(Kind* kind) const;

  const std::function<void(const Notice&)> hand_on_;
  std::map<std::pair<std::string_view, int>, Kind> kinds_;  // by file and line of the call
};

}  // namespace capstan
