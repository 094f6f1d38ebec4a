#include "tests/fuzz/target.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace capstan::fuzz {

namespace {

constexpr std::size_t kReasonBytesMax = 8192;  // a person reads it

std::vector<Target>& MutableTargets() {
  static std::vector<Target> targets;
  return targets;
}

}  // namespace

Registered::Registered(Target target) { MutableTargets().push_back(target); }

const std::vector<Target>& Targets() { return MutableTargets(); }

void Require(bool holds, std::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

void RequireReason(const Status& status, std::string_view subject) {
  Require(!status.ok(), "a refusal has a code");
  const std::string& message = status.message();
  const bool names = !message.empty() && message.find(subject) != std::string::npos;
  Require(names, "the refusal \"" + message + "\" names " + std::string(subject));
  Require(message.size() <= kReasonBytesMax, "a refusal is short enough to read: " + message.substr(0, 200));
}

}  // namespace capstan::fuzz
