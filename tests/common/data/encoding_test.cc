#include "common/data/encoding.h"

#include <cstring>
#include <vector>

#include "common/base/random.h"
#include "common/data/number16.h"
#include "tests/catch.h"

namespace capstan {
namespace {

std::vector<float> RandomValues(std::size_t count) {
  RandomStream random(3);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>((random.Unit() - 0.5) * 100.0);
  return values;
}

float Rounded(Encoding encoding, float value) {
  if (encoding == Encoding::kBf16) return Widen(Narrow<Bf16>(value));
  return encoding == Encoding::kFp16 ? Widen(Narrow<Half>(value)) : value;
}

TEST_CASE("what is encoded is decoded as each number rounded, at any address", "[common][encoding]") {
  for (const Encoding encoding : {Encoding::kFp32, Encoding::kBf16, Encoding::kFp16}) {
    for (const std::size_t count : {0, 1, 15, 17, 511, 512, 513, 1500}) {
      CAPTURE(NameOf(encoding), count);
      const std::vector<float> values = RandomValues(count);
      std::vector<std::byte> bytes(count * BytesPerNumber(encoding) + 1);
      Encode(encoding, values, bytes.data() + 1);
      std::vector<float> decoded(count, -7.0F);
      Decode(encoding, bytes.data() + 1, count, decoded.data());
      std::vector<float> rounded = values;
      RoundTo(encoding, rounded);
      for (std::size_t i = 0; i < count; ++i) {
        REQUIRE(decoded[i] == Rounded(encoding, values[i]));
        REQUIRE(rounded[i] == decoded[i]);
      }
    }
  }
}

TEST_CASE("numbers are encoded in their own place", "[common][encoding]") {
  for (const Encoding encoding : {Encoding::kFp32, Encoding::kBf16, Encoding::kFp16}) {
    const std::vector<float> values = RandomValues(1234);
    std::vector<std::byte> apart(values.size() * sizeof(float));
    Encode(encoding, values, apart.data());
    std::vector<float> place = values;
    Encode(encoding, place, reinterpret_cast<std::byte*>(place.data()));
    REQUIRE(std::memcmp(place.data(), apart.data(), values.size() * BytesPerNumber(encoding)) == 0);
  }
}

}  // namespace
}  // namespace capstan
