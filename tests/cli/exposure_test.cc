// Tests of what is refused and said where other machines reach an address in plaintext.
#include "cli/run/exposure.h"

#include "tests/catch.h"

namespace capstan::cli {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("an address that other machines reach is refused unless it is allowed", "[cli][exposure]") {
  for (const std::string open : {"192.0.2.5:29600", "0.0.0.0:29600", "*:29600", "no-such-host.invalid:29600"}) {
    CAPTURE(open);
    CHECK(IsExposed(open));
    CHECK(CheckExposure("cluster.coordinator", open, Plaintext::kAllowed).ok());
    const Status status = CheckExposure("cluster.coordinator", open, Plaintext::kRefused);
    CHECK(status.code() == Code::kRefused);
    CHECK_THAT(status.message(), Contains("cluster.coordinator is " + open) && Contains("--allow-plaintext"));
    CHECK(ProtectionOf(open) == kNotProtected);
    CHECK_THAT(ExposureWarning(open), Contains(open) && Contains("--allow-plaintext"));
  }
  for (const std::string closed : {"127.0.0.1:0", "127.3.2.1:29600", "localhost:29600", "ipc:///run/job/coordinator"}) {
    CAPTURE(closed);
    CHECK_FALSE(IsExposed(closed));
    CHECK(CheckExposure("--coordinator", closed, Plaintext::kRefused).ok());
    CHECK(ProtectionOf(closed) != kNotProtected);
    CHECK(ExposureWarning(closed).empty());
  }
}

TEST_CASE("the warning comes at once, and again every minute", "[cli][exposure]") {
  const auto start = ExposureReminder::TimePoint() + std::chrono::hours(1);
  ExposureReminder reminder("open");
  CHECK(reminder.Look(start) == "open");
  CHECK_FALSE(reminder.Look(start));
  CHECK_FALSE(reminder.Look(start + std::chrono::seconds(59)));
  CHECK(reminder.Look(start + std::chrono::seconds(60)) == "open");
  CHECK_FALSE(reminder.Look(start + std::chrono::seconds(119)));
  CHECK(reminder.Look(start + std::chrono::seconds(120)) == "open");

  ExposureReminder nothing("");
  CHECK_FALSE(nothing.Look(start));
}

}  // namespace
}  // namespace capstan::cli
