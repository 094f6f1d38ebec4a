// LogClock: when the lines of a log were written. Lines have a time of day, and no date.
//
// Kind:   a value. Survey reads all lines once; Next then takes the same lines again.
// Limits: a log that had no line for more than twelve hours may be dated a day too late.
// Why:    the logs of several processes are shown together in the order of time, also across midnight.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace capstan::cli {

// Returns the time of day of a line such as "13:05:59.250 step 12", in milliseconds; nothing if it begins with none.
std::optional<std::int64_t> TimeOfLine(std::string_view line);

class LogClock {
 public:
  // Looks at a line, from the first to the last that Next will be asked about.
  void Survey(std::string_view line);
  // To be called after the last Survey. `changed_ms`: when the file was last changed, in milliseconds of local time.
  void Anchor(std::int64_t changed_ms);
  // Returns when the line was written, in milliseconds of local time. A line without a time has that of the line before
  // it.
  std::int64_t Next(std::string_view line);

 private:
  // Takes the time of day of a line; returns whether a midnight lies before it.
  static bool Passes(std::optional<std::int64_t>* last, std::int64_t time);

  std::optional<std::int64_t> last_surveyed_, first_, last_;
  std::int64_t day_ = 0;  // Survey: midnights passed; from Anchor on: midnight before the next line, in milliseconds
  std::int64_t now_ = 0;  // the time of the last line
};

}  // namespace capstan::cli
