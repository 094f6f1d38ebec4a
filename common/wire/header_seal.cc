#include "common/wire/header_seal.h"

#include <cstring>

#include "common/base/hash.h"

namespace capstan {

void SealHeader(std::size_t payload_bytes, std::vector<std::byte>* header) {
  const std::uint64_t seal = Hash64(*header, payload_bytes);
  const std::size_t size = header->size();
  header->resize(size + sizeof seal);
  std::memcpy(header->data() + size, &seal, sizeof seal);
}

Result<std::span<const std::byte>> OpenHeader(std::span<const std::byte> sealed, std::size_t payload_bytes) {
  std::uint64_t seal = 0;
  if (sealed.size() < sizeof seal) {
    return Corrupt("not a message of this protocol: a header of " + std::to_string(sealed.size()) + " bytes");
  }
  const std::span<const std::byte> header = sealed.first(sealed.size() - sizeof seal);
  std::memcpy(&seal, sealed.data() + header.size(), sizeof seal);
  if (Hash64(header, payload_bytes) == seal) return header;
  return Corrupt("not a message of this protocol, or damaged on the way: the seal does not match a header of " +
                 std::to_string(header.size()) + " bytes with a payload of " + std::to_string(payload_bytes));
}

}  // namespace capstan
