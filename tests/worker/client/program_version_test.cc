// A program gives a version, and another one gets the same.
#include "worker/client/program_version.h"

#include <algorithm>
#include <cstring>

#include "tests/catch.h"

namespace capstan::client {
namespace {

constexpr std::uint64_t kElements = 20'000;

// Gives the version to another program, through what the shards keep of it.
Status Pass(const ProgramVersion::Parts& parts, ProgramVersion* to) {
  const std::vector<float*> places = to->places();
  for (std::size_t i = 0; i < places.size(); ++i) {
    std::memcpy(places[i], parts.arrays[i + 1].data, parts.arrays[i + 1].size);
  }
  return to->Take(reinterpret_cast<const float*>(parts.arrays[0].data), parts.head);
}

std::string StateOf(std::size_t bytes) {
  std::string state;
  for (std::size_t i = 0; i < bytes; ++i) state += static_cast<char>(i * 31 % 251);
  return state;
}

TEST_CASE("a state of any length comes back as it was given", "[client][external]") {
  const std::vector<float> weights(kElements, 0.5F);
  for (std::size_t bytes : {0UL, 1UL, 65520UL, 65521UL, 100'000UL, 145'520UL, 145'521UL, 225'520UL}) {
    ProgramVersion from(kElements, 2), to(kElements, 2);
    const Result<ProgramVersion::Parts> parts = from.Give(weights.data(), StateOf(bytes));
    REQUIRE(parts.ok());
    CHECK(parts->head.size() <= 65536);
    REQUIRE(parts->arrays.size() == 3);
    REQUIRE(Pass(*parts, &to).ok());
    CHECK(to.state() == StateOf(bytes));
  }
}

TEST_CASE("a state that is too long is refused with the line to write", "[client][external]") {
  const std::vector<float> weights(kElements, 0.5F);
  ProgramVersion version(kElements, 1);
  CHECK(version.bytes_max() == 65520 + 4 * kElements);
  CHECK(version.Give(weights.data(), StateOf(version.bytes_max())).ok());
  const Status refused = version.Give(weights.data(), StateOf(version.bytes_max() + 1)).status();
  CHECK(refused.code() == Code::kInvalid);
  CHECK_THAT(refused.message(), Catch::Matchers::Contains("states = 1"));
}

TEST_CASE("parts of two programs that differ do not make a version", "[client][external]") {
  std::vector<float> weights(kElements, 0.5F);
  ProgramVersion from(kElements, 1), to(kElements, 1);
  ProgramVersion::Parts parts = from.Give(weights.data(), StateOf(100'000)).value();
  weights[kElements - 1] = 0.25F;
  const ProgramVersion::Parts others = from.Give(weights.data(), StateOf(100'000)).value();
  parts.arrays[0] = others.arrays[0];
  CHECK(Pass(parts, &to).code() == Code::kCorrupt);

  parts = from.Give(weights.data(), StateOf(100'000)).value();
  parts.head.pop_back();
  CHECK(Pass(parts, &to).code() == Code::kCorrupt);
  parts.head = "short";
  CHECK(Pass(parts, &to).code() == Code::kCorrupt);
  parts.head = std::string(65536, '\xFF');  // a length above all limits
  CHECK(Pass(parts, &to).code() == Code::kCorrupt);
}

TEST_CASE("a version that no program has given has no state", "[client][external]") {
  const std::vector<float> weights(kElements, 0.5F);
  ProgramVersion version(kElements, 2);
  REQUIRE(version.Take(weights.data(), "").ok());
  CHECK(version.state().empty());
}

}  // namespace
}  // namespace capstan::client
