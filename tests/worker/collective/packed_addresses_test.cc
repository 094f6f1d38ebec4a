#include "worker/collective/packed_addresses.h"

#include "common/wire/messages/group.h"
#include "common/wire/messages/limits.h"
#include "common/wire/messages/shard_address.h"
#include "common/wire/messages/view.h"
#include "common/wire/transport.h"
#include "common/wire/wire_codec.h"
#include "tests/catch.h"

namespace capstan::collective {
namespace {

constexpr std::size_t kWays = 3;  // connections between any two ranks

// Returns an address like Gloo's: a socket's address in 128 bytes, then the number of the connection in 8.
std::string AddressOf(std::size_t rank, std::size_t connection) {
  std::string address(136, '\0');
  address[0] = 2;
  address[4] = 10;
  address[7] = static_cast<char>(rank);
  address[128] = static_cast<char>(connection % 256);
  address[129] = static_cast<char>(connection / 256);
  return address;
}

std::vector<std::string> AddressesOf(std::size_t rank, std::size_t ranks) {
  std::vector<std::string> addresses;
  for (std::size_t i = 0; i < kWays * (ranks - 1); ++i) addresses.push_back(AddressOf(rank, i + 1));
  return addresses;
}

TEST_CASE("addresses come back as they were, whatever they have in common", "[collective]") {
  const std::vector<std::vector<std::string>> lists = {
      AddressesOf(1, 2), AddressesOf(3, 200),  {"a"},
      {"same", "same"},  {"aXa", "aYa"},       {"aab", "aba"},
      {"xay", "xby"},    {"front1", "front2"}, {"aaaa", "aaba", "abaa"}};
  for (const std::vector<std::string>& list : lists) {
    const Result<std::vector<std::string>> back = UnpackAddresses(PackAddresses(list), list.size());
    REQUIRE(back.ok());
    CHECK(*back == list);
    CHECK_FALSE(UnpackAddresses(PackAddresses(list) + "x", list.size()).ok());
    CHECK_FALSE(UnpackAddresses(PackAddresses(list).substr(1), list.size()).ok());
  }
  CHECK(UnpackAddresses(PackAddresses({}), 0)->empty());
  CHECK_FALSE(UnpackAddresses("", 1).ok());
  CHECK_FALSE(UnpackAddresses(std::string(5, '\xff'), 1).ok());
  CHECK_FALSE(UnpackAddresses(std::string(6, '\xff'), 1).ok());
}

TEST_CASE("the largest group's addresses fit a Heartbeat, and a view of all of them fits a frame", "[collective]") {
  for (const std::size_t ranks : {200U, 256U}) {
    View view;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      view.group.push_back({std::string(128, 'n'), PackAddresses(AddressesOf(rank, ranks))});
      REQUIRE(view.group.back().address.size() <= kGroupTextBytesMax);
    }
    std::vector<std::byte> header;
    const Status encoded = EncodeHeader(view, &header);
    INFO(encoded.message());
    REQUIRE(encoded.ok());
    CHECK(header.size() <= TransportOptions().frame_bytes_max / 8);
    const Result<Header> decoded = DecodeHeader(header);
    REQUIRE(decoded.ok());
    REQUIRE(decoded->As<View>()->group.size() == ranks);
    CHECK(*UnpackAddresses(decoded->As<View>()->group[7].address, kWays * (ranks - 1)) == AddressesOf(7, ranks));
  }
}

}  // namespace
}  // namespace capstan::collective
