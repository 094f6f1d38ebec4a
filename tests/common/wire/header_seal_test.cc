#include "common/wire/header_seal.h"

#include "common/base/random.h"
#include "tests/catch.h"

namespace capstan {
namespace {

std::vector<std::byte> Noise(std::size_t size) {
  RandomStream random(size);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.Next());
  return bytes;
}

TEST_CASE("a sealed header opens with the payload it was sealed with, and with no other", "[common][wire]") {
  for (std::size_t size : {0, 1, 16, 200, 5000}) {
    const std::vector<std::byte> header = Noise(size);
    std::vector<std::byte> sealed = header;
    SealHeader(1 << 20, &sealed);
    const auto opened = OpenHeader(sealed, 1 << 20);
    REQUIRE(opened.ok());
    CHECK(std::vector<std::byte>(opened->begin(), opened->end()) == header);
    for (std::size_t payload : {0, 4, (1 << 20) - 1}) {
      CHECK(OpenHeader(sealed, payload).status().code() == Code::kCorrupt);
    }
  }
}

TEST_CASE("every flipped bit of a sealed header is noticed", "[common][wire][hostile]") {
  std::vector<std::byte> sealed = Noise(120);
  SealHeader(64, &sealed);
  for (std::size_t bit = 0; bit < 8 * sealed.size(); ++bit) {
    const std::byte flip{static_cast<unsigned char>(1U << bit % 8)};
    sealed[bit / 8] ^= flip;
    CHECK(OpenHeader(sealed, 64).status().code() == Code::kCorrupt);
    sealed[bit / 8] ^= flip;
  }
  CHECK(OpenHeader(sealed, 64).ok());
}

TEST_CASE("what is too short for a seal is no message", "[common][wire][hostile]") {
  for (std::size_t size = 0; size < 8; ++size) {
    CHECK(OpenHeader(Noise(size), 0).status().code() == Code::kCorrupt);
  }
}

}  // namespace
}  // namespace capstan
