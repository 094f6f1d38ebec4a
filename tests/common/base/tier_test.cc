// Tests of the environment variables that set the seeds and time limits of the tests.
#include "tests/tier.h"

#include <cstdlib>
#include <string>

#include "tests/catch.h"
#include "tests/patience.h"

namespace capstan {
namespace {

// Unsets an environment variable, and restores its old value at the end.
class Variable {
 public:
  explicit Variable(const char* name) : name_(name) {
    const char* const text = std::getenv(name);
    was_set_ = text != nullptr;
    if (was_set_) old_ = text;
    unsetenv(name);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() {
    unsetenv(name_);
    if (was_set_) Set(old_.c_str());
  }

  void Set(const char* text) { setenv(name_, text, 1); }

 private:
  const char* name_;
  bool was_set_;
  std::string old_;
};

TEST_CASE("a seed that is given is taken in every tier", "[tier]") {
  Variable tier("CAPSTAN_TEST_TIER"), seed("CAPSTAN_TEST_SEED");
  seed.Set("4711");
  for (const char* const word : {"quick", "default", "all"}) {
    tier.Set(word);
    CHECK(testing::TestSeed() == 4711);
  }
}

TEST_CASE("without a seed only the tier all takes fresh ones", "[tier]") {
  Variable tier("CAPSTAN_TEST_TIER"), seed("CAPSTAN_TEST_SEED");
  tier.Set("default");
  CHECK(testing::TestSeed() == 0);
  tier.Set("all");
  const auto first = testing::TestSeed();
  bool fresh = false;
  for (int i = 0; i < 10; ++i) fresh |= testing::TestSeed() != first;
  CHECK(fresh);
}

TEST_CASE("limits are those of a slow machine times those of slow programs", "[tier]") {
  Variable patience("CAPSTAN_TEST_PATIENCE"), slowdown("CAPSTAN_TEST_SLOWDOWN");
  CHECK(testing::Patience() == 1);
  patience.Set("2");
  CHECK(testing::Patience() == 2);
  slowdown.Set("5");
  CHECK(testing::Patience() == 10);
}

}  // namespace
}  // namespace capstan
