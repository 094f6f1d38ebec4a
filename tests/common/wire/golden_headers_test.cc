// Compares headers with golden_headers.txt. Each line of the file has the name of a message and, as hex digits, the
// headers of its GoldenMessage and of an empty message.
#include <fstream>
#include <string>

#include "common/wire/wire_codec.h"
#include "tests/catch.h"
#include "tests/common/wire/golden_messages.h"
#include "tests/common/wire/random_messages.h"

namespace capstan {
namespace {

std::string HexOf(const std::vector<std::byte>& bytes) {
  std::string hex;
  for (const std::byte byte : bytes) {
    constexpr const char* kDigits = "0123456789abcdef";
    hex += kDigits[static_cast<unsigned>(byte) >> 4];
    hex += kDigits[static_cast<unsigned>(byte) & 15];
  }
  return hex;
}

std::string NameOf(const Header& header) {
  return std::visit([](const auto& message) { return HeaderField(&message).title; }, header.any());
}

void CheckBytes(const Header& header, const std::string& golden) {
  std::vector<std::byte> bytes;
  REQUIRE(EncodeHeader(header, &bytes).ok());
  CHECK(HexOf(bytes) == golden);
  const Result<Header> back = DecodeHeader(bytes);
  REQUIRE(back.ok());
  CHECK(testing::Same(*back, header));
}

TEST_CASE("the header of every message has the bytes that it always had", "[common][wire]") {
  std::ifstream file(CAPSTAN_SOURCE_DIR "/tests/common/wire/golden_headers.txt");
  std::size_t kind = 0;
  for (Header& header : testing::GoldenMessages()) {
    REQUIRE(header.any().index() == kind++);
    std::string name, full, empty;
    REQUIRE(file >> name >> full >> empty);
    INFO(name);
    CHECK(NameOf(header) == name);
    CheckBytes(header, full);
    std::visit([](auto& message) { message = {}; }, header.any());
    CheckBytes(header, empty);
  }
  CHECK(kind == std::variant_size_v<MessageVariant>);
}

}  // namespace
}  // namespace capstan
