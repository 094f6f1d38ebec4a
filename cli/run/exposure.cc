#include "cli/run/exposure.h"

#include "cli/run/address.h"
#include "common/base/host_port.h"
#include "common/base/process_address.h"

namespace capstan::cli {

bool IsExposed(const std::string& address) {
  if (!CanBeExposed(address)) return false;
  const Result<std::string> numeric = NumericHost(address);
  return !numeric.ok() || CanBeExposed(*numeric);
}

Status CheckExposure(const std::string& what, const std::string& address, Plaintext plaintext) {
  if (plaintext == Plaintext::kAllowed || !IsExposed(address)) return {};
  return Refused(what + " is " + address +
                 ", which other machines reach, and nothing there is encrypted or checked: whoever reaches it can read "
                 "and change the weights, and read what the workers train on. In a network that you trust, add "
                 "--allow-plaintext; for a job on one machine, leave the address out");
}

std::string ProtectionOf(const std::string& address) {
  if (IsLocalAddress(address)) return "local: this user's processes only";
  if (!KeyInAddress(address).empty()) return "encrypted: processes in the allow list only";
  return IsExposed(address) ? kNotProtected : "plaintext: all users of this machine";
}

std::string ExposureWarning(const std::string& address) {
  if (!IsExposed(address)) return "";
  return "messages to " + address +
         " are neither encrypted nor checked (--allow-plaintext): whoever reaches it can read and change the weights, "
         "and "
         "read what the workers train on";
}

std::optional<std::string> ExposureReminder::Look(TimePoint now) {
  if (warning_.empty() || (next_ && now < *next_)) return std::nullopt;
  next_ = now + kEvery;
  return warning_;
}

}  // namespace capstan::cli
