// Exposure: whether other machines reach an address in plaintext, and the words that refuse it or warn of it.
//
// Kind:   functions that may look up a host's name; ExposureReminder is a value.
// Why:    no process opens a port to other machines without keys unless the person who starts it says so, by
//         --allow-plaintext. A job file cannot say it: servers and workers get theirs from another machine.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "common/base/status.h"

namespace capstan::cli {

enum class Plaintext { kRefused, kAllowed };

// Whether the host in the address is one that other machines reach. A name is looked up.
bool IsExposed(const std::string& address);
// Refuses an exposed address unless that is allowed. `what` names the setting that has the address.
Status CheckExposure(const std::string& what, const std::string& address, Plaintext plaintext);
inline constexpr char kNotProtected[] = "plaintext: not protected";
// Describes in a few words, for a status page, what protects messages to the address.
std::string ProtectionOf(const std::string& address);
// Says what an exposed address means; empty if the address is not exposed.
std::string ExposureWarning(const std::string& address);

// Says when the warning is due: at once, and then every minute.
class ExposureReminder {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::minutes kEvery{1};

  // An empty `warning` is never due.
  explicit ExposureReminder(std::string warning) : warning_(std::move(warning)) {}

  // Returns the warning if it is due at `now`.
  std::optional<std::string> Look(TimePoint now);

 private:
  std::string warning_;
  std::optional<TimePoint> next_;
};

}  // namespace capstan::cli
