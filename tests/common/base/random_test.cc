#include "common/base/random.h"

#include <set>

#include "tests/catch.h"

namespace capstan {
namespace {

// The expected values are those of Random123 1.14, tests/kat_vectors, lines "philox4x32 10".
TEST_CASE("Philox gives the published answers of Philox4x32-10", "[common][random]") {
  CHECK(Philox(0, 0, 0) == Random4{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(Philox(UINT64_MAX, UINT64_MAX, UINT64_MAX) == Random4{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  // The key is a4093822 299f31d0, the counter 243f6a88 85a308d3 13198a2e 03707344; the first word is the lowest.
  CHECK(Philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e) ==
        Random4{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a derived key is the first two words of Philox", "[common][random]") {
  CHECK(PhiloxKey(0, 0, 0) == 0xe169c58d6627e8d5);
  CHECK(PhiloxKey(1, 2) == PhiloxKey(1, 2, 0));
  CHECK(PhiloxKey(1, 2) != PhiloxKey(2, 1));
}

TEST_CASE("UnitFloat covers [0, 1) and never reaches 1", "[common][random]") {
  CHECK(UnitFloat(0) == 0.0F);
  CHECK(UnitFloat(0x80000000) == 0.5F);
  CHECK(UnitFloat(0xFF) == 0.0F);  // 24 significant bits
  CHECK(UnitFloat(0xFFFFFFFF) == 1.0F - 0x1p-24F);
}

TEST_CASE("a stream is Philox over a counter, four words at a time", "[common][random]") {
  RandomStream stream(7, 9);
  for (std::uint64_t block = 0; block < 3; ++block) {
    for (std::uint32_t word : Philox(7, block, 9)) CHECK(stream.Next() == word);
  }
  RandomStream other(7, 10), again(7, 9);
  CHECK(other.Next() != Philox(7, 0, 9)[0]);
  CHECK(again.Next64() == (Philox(7, 0, 9)[0] | std::uint64_t{Philox(7, 0, 9)[1]} << 32));
}

TEST_CASE("Below stays under its bound and reaches every value", "[common][random]") {
  RandomStream stream(1);
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(stream.Below(7));
  CHECK(seen.size() == 7);
  CHECK(*seen.rbegin() == 6);
  for (int i = 0; i < 10; ++i) CHECK(stream.Below(1) == 0);
  for (int i = 0; i < 1000; ++i) {
    const double unit = stream.Unit();
    REQUIRE(unit >= 0.0);
    REQUIRE(unit < 1.0);
  }
}

}  // namespace
}  // namespace capstan
