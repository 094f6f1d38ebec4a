#include "common/base/crc32c.h"

#include <string>

#include "tests/catch.h"

namespace capstan {
namespace {

TEST_CASE("the checksum is that of the published test vectors", "[common][crc32c]") {
  CHECK(Crc32c("") == 0);
  CHECK(Crc32c("123456789") == 0xE3069283);
  CHECK(Crc32c(std::string(32, '\0')) == 0x8A9136AA);  // this and the next three: RFC 3720, B.4
  CHECK(Crc32c(std::string(32, '\xFF')) == 0x62A8AB43);
  std::string up, down;
  for (char i = 0; i < 32; ++i) {
    up += i;
    down += static_cast<char>(31 - i);
  }
  CHECK(Crc32c(up) == 0x46DD794E);
  CHECK(Crc32c(down) == 0x113FDB5C);
}

}  // namespace
}  // namespace capstan
