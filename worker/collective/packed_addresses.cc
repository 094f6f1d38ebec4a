#include "worker/collective/packed_addresses.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

namespace capstan::collective {

namespace {

// The header of the packed string: bytes of each address, and how many of them all addresses share at the front and at
// the back.
struct Sizes {
  std::uint16_t whole = 0, front = 0, back = 0;
};

std::size_t CommonFront(const std::string& a, const std::string& b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin());
}

std::size_t CommonBack(const std::string& a, const std::string& b) {
  return static_cast<std::size_t>(std::mismatch(a.rbegin(), a.rend(), b.rbegin()).first - a.rbegin());
}

}  // namespace

std::string PackAddresses(const std::vector<std::string>& addresses) {
  if (addresses.empty()) return {};
  const std::string& first = addresses.front();
  std::size_t front = first.size(), back = first.size();
  for (const std::string& address : addresses) {
    CAPSTAN_CHECK(address.size() == first.size());
    front = std::min(front, CommonFront(first, address));
    back = std::min(back, CommonBack(first, address));
  }
  back = std::min(back, first.size() - front);  // the common front and back must not overlap
  CAPSTAN_CHECK(first.size() <= std::numeric_limits<std::uint16_t>::max());
  const Sizes sizes{static_cast<std::uint16_t>(first.size()), static_cast<std::uint16_t>(front),
                    static_cast<std::uint16_t>(back)};
  std::string packed(sizeof sizes, '\0');
  std::memcpy(packed.data(), &sizes, sizeof sizes);
  packed += first.substr(0, front);
  packed += first.substr(first.size() - back);
  for (const std::string& address : addresses) packed += address.substr(front, address.size() - front - back);
  return packed;
}

Result<std::vector<std::string>> UnpackAddresses(std::string_view packed, std::size_t count) {
  const Status not_these = Invalid(std::to_string(packed.size()) + " bytes of addresses are not those of " +
                                   std::to_string(count) + " connections");
  if (count == 0 && packed.empty()) return std::vector<std::string>();
  Sizes sizes;
  if (packed.size() < sizeof sizes) return not_these;
  std::memcpy(&sizes, packed.data(), sizeof sizes);
  packed.remove_prefix(sizeof sizes);
  const std::size_t common = std::size_t{sizes.front} + sizes.back;
  if (sizes.whole == 0 || common > sizes.whole) return not_these;
  const std::size_t own = sizes.whole - common;
  if (packed.size() < common || packed.size() - common != count * own) return not_these;
  std::vector<std::string> addresses;
  for (std::size_t i = 0; i < count; ++i) {
    std::string& address = addresses.emplace_back(packed.substr(0, sizes.front));
    address += packed.substr(common + i * own, own);
    address += packed.substr(sizes.front, sizes.back);
  }
  return addresses;
}

}  // namespace capstan::collective
