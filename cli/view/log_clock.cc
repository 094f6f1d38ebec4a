#include "cli/view/log_clock.h"

#include <algorithm>

namespace capstan::cli {
namespace {

constexpr std::int64_t kDayMs = 86'400'000, kHalfDayMs = kDayMs / 2;

// Returns the number of two or three digits at `at`; negative if it is none, or not below `end`.
std::int64_t DigitsAt(std::string_view line, std::size_t at, std::size_t count, std::int64_t end) {
  std::int64_t number = 0;
  for (const char c : line.substr(at, count)) {
    if (c < '0' || c > '9') return -1;
    number = 10 * number + (c - '0');
  }
  return number < end ? number : -1;
}

}  // namespace

std::optional<std::int64_t> TimeOfLine(std::string_view line) {
  constexpr std::string_view kForm = "00:00:00.000 ";
  if (line.size() < kForm.size() || line[2] != ':' || line[5] != ':' || line[8] != '.' || line[12] != ' ')
    return std::nullopt;
  const std::int64_t hours = DigitsAt(line, 0, 2, 24), minutes = DigitsAt(line, 3, 2, 60);
  const std::int64_t seconds = DigitsAt(line, 6, 2, 61), rest = DigitsAt(line, 9, 3, 1000);
  if (std::min({hours, minutes, seconds, rest}) < 0) return std::nullopt;
  return ((hours * 60 + minutes) * 60 + seconds) * 1000 + rest;
}

// Times go back a little where threads print at once or a clock is set, and far only at midnight.
bool LogClock::Passes(std::optional<std::int64_t>* last, std::int64_t time) {
  const bool passes = *last && time < **last - kHalfDayMs;
  *last = time;
  return passes;
}

void LogClock::Survey(std::string_view line) {
  const std::optional<std::int64_t> time = TimeOfLine(line);
  if (!time) return;
  if (!first_) first_ = time;
  if (Passes(&last_surveyed_, *time)) ++day_;
}

void LogClock::Anchor(std::int64_t changed_ms) {
  const std::int64_t last_midnight = changed_ms - changed_ms % kDayMs;
  // A line from before midnight may be the last with a time in a file that was changed after it.
  const std::int64_t before = last_surveyed_.value_or(0) > changed_ms % kDayMs + kHalfDayMs ? kDayMs : 0;
  day_ = last_midnight - before - day_ * kDayMs;
  now_ = first_ ? day_ + *first_ : changed_ms;
}

std::int64_t LogClock::Next(std::string_view line) {
  const std::optional<std::int64_t> time = TimeOfLine(line);
  if (!time) return now_;
  if (Passes(&last_, *time)) day_ += kDayMs;
  now_ = std::max(now_, day_ + *time);
  return now_;
}

}  // namespace capstan::cli
