// Any bytes as a header: refused with a reason, or read as a message that would be sent and read again just so.
#include <cstdlib>

#include "common/wire_codec.h"
#include "tests/common_wire/message_fields.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace capstan;
  constexpr std::size_t kInputBytesMax = 1 << 20;  // texts that share words may grow a little when written again
  if (size > kInputBytesMax) return 0;
  Result<Header> header = DecodeHeader(std::as_bytes(std::span(data, size)));
  if (!header.ok()) return header.status().message().empty() ? std::abort(), 0 : 0;
  std::vector<std::byte> bytes;
  if (!EncodeHeader(*header, &bytes).ok()) std::abort();
  Result<Header> again = DecodeHeader(bytes);
  if (!again.ok() || !testing::Same(*header, *again)) std::abort();
  return 0;
}
