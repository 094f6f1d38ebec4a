#include "common/base/hash.h"

#include <string>
#include <vector>

#include "tests/catch.h"

namespace capstan {
namespace {

std::span<const std::byte> Bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

// The expected values are those of libxxhash 0.8.1.
TEST_CASE("Hash64 is XXH3-64", "[common][hash]") {
  CHECK(Hash64({}) == 0x2d06800538d394c2);
  CHECK(Hash64(Bytes("a")) == 0xe6c632b61e964e1f);
  CHECK(Hash64(Bytes("abc")) == 0x78af5f94892f3950);
}

TEST_CASE("a hash does not depend on how its bytes were added", "[common][hash]") {
  std::string text(5000, ' ');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31);
  const std::uint64_t whole = Hash64(Bytes(text));
  for (std::size_t cut : {std::size_t{0}, std::size_t{1}, std::size_t{255}, std::size_t{4999}, text.size()}) {
    Hasher hasher;
    hasher.Add(std::string_view(text).substr(0, cut));
    hasher.Add(std::string_view(text).substr(cut));
    CHECK(hasher.Digest() == whole);
    CHECK(hasher.Digest() == whole);
  }
}

TEST_CASE("a number is hashed as eight bytes, little endian", "[common][hash]") {
  Hasher number, bytes;
  number.Add(std::uint64_t{0x0807060504030201});
  bytes.Add("\x01\x02\x03\x04\x05\x06\x07\x08");
  CHECK(number.Digest() == bytes.Digest());
}

}  // namespace
}  // namespace capstan
