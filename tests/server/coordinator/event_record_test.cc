// Compares event records with bytes that TensorBoard's own classes (Event.SerializeToString, masked_crc32c) have made.
#include "server/coordinator/event_record.h"

#include <limits>

#include "tests/catch.h"

namespace capstan::server {
namespace {

std::string Hex(const std::string& bytes) {
  std::string hex;
  for (const char byte : bytes) {
    constexpr const char* kDigits = "0123456789abcdef";
    hex += kDigits[static_cast<unsigned char>(byte) >> 4];
    hex += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return hex;
}

constexpr double kTime = 1700000000.25;

TEST_CASE("the first event of a file has the bytes that TensorBoard writes", "[server][tensorboard]") {
  CHECK(Hex(RecordOf(VersionEvent(kTime))) ==
        "1800000000000000a37f4b220900001040fc54d9411a0d627261696e2e4576656e743a32338d2fe9");
}

TEST_CASE("a start that discards later points has the bytes that TensorBoard writes", "[server][tensorboard]") {
  CHECK(Hex(RecordOf(StartEvent(kTime, 300))) == "100000000000000095fbfe180900001040fc54d94110ac023a0208016b3b88f1");
}

TEST_CASE("points, also one that is no number, have the bytes that TensorBoard writes", "[server][tensorboard]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(
      Hex(RecordOf(ScalarsEvent(kTime, 300, {{"train/loss", 0.5}, {"metrics/a", nan}}))) ==
      "33000000000000000ca720560900001040fc54d94110ac022a250a110a0a747261696e2f6c6f7373150000003f0a100a096d657472696373"
      "2f61150000c07f666ea5a2");
}

}  // namespace
}  // namespace capstan::server
