// Tier: how much a run of the tests tries, and with which seeds.
//
//   CAPSTAN_TEST_TIER   quick, default (also if it is not set) or all
//   CAPSTAN_TEST_SEED   a decimal number from which tests derive their seeds; if not set: 0, or a fresh number in tier
//   all
//
// Kind:   functions of the environment.
// Fails:  throws std::invalid_argument for invalid values of these variables, so that the test fails.
// Why:    a failed run can be repeated, and each run of tier all tries other seeds.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <string>

namespace capstan::testing {

enum class Tier { kQuick, kDefault, kAll };

inline Tier TestTier() {
  const char* text = std::getenv("CAPSTAN_TEST_TIER");
  const std::string word = text == nullptr || *text == '\0' ? "default" : text;
  if (word == "quick") return Tier::kQuick;
  if (word == "default") return Tier::kDefault;
  if (word == "all") return Tier::kAll;
  throw std::invalid_argument("CAPSTAN_TEST_TIER is quick, default or all, not \"" + word + "\"");
}

// Returns the decimal number in a variable; `otherwise` if it is not set.
inline std::uint64_t NumberFromEnvironment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  const std::string digits = text;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error == std::errc() && end == digits.data() + digits.size()) return number;
  throw std::invalid_argument(std::string(name) + " is a decimal number of 64 bits, not \"" + digits + "\"");
}

// Returns how many of `count` random tries a run makes: all in tier all, an eighth in the other tiers.
inline int TriesOfTier(int count) { return TestTier() == Tier::kAll ? count : (count + 7) / 8; }

// Returns and prints a seed of 32 bits: CAPSTAN_TEST_SEED. If that is not set, the seed is fresh in tier all, and 0 in
// the other tiers.
inline std::uint32_t TestSeed() {
  const std::uint32_t otherwise = TestTier() == Tier::kAll ? std::random_device()() : 0;
  const auto seed = static_cast<std::uint32_t>(NumberFromEnvironment("CAPSTAN_TEST_SEED", otherwise));
  std::printf("CAPSTAN_TEST_SEED=%u\n", seed);
  return seed;
}

}  // namespace capstan::testing
