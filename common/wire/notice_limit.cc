#include "common/wire/notice_limit.h"

#include <string>

namespace capstan {

namespace {

// Writes 1204 as "1,204".
std::string WithCommas(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t end = text.size(); end > 3; end -= 3) text.insert(end - 3, ",");
  return text;
}

}  // namespace

void NoticeLimit::Take(const Notice& notice, Instant now) {
  if (!hand_on_) return;
  const auto [entry, is_new] = kinds_.try_emplace({notice.file, notice.line});
  Kind& kind = entry->second;
  if (is_new) kind.begin = now;
  if (now - kind.begin >= kPeriod) {
    const bool continues = kind.held > 0;  // after lines that were held back there is no burst
    HandOnHeld(&kind);
    kind.begin = now;
    kind.passed = continues ? kBurst : 0;
  }
  if (kind.passed < kBurst) {
    ++kind.passed;
    return hand_on_(notice);
  }
  kind.newest = notice;
  ++kind.held;
}

void NoticeLimit::Look(Instant now) {
  for (auto& [call, kind] : kinds_) {
    if (kind.held == 0 || now - kind.begin < kPeriod) continue;
    HandOnHeld(&kind);
    kind.begin = now;
    kind.passed = kBurst;
  }
}

void NoticeLimit::Flush() {
  for (auto& [call, kind] : kinds_) HandOnHeld(&kind);
}

void NoticeLimit::HandOnHeld(Kind* kind) const {
  if (kind->held == 0) return;
  Notice notice = std::move(*kind->newest);
  const std::uint64_t others = kind->held - 1;
  if (others > 0) notice.text += " (and " + WithCommas(others) + " more like it in the last second)";
  kind->newest.reset();
  kind->held = 0;
  hand_on_(notice);
}

}  // namespace capstan
