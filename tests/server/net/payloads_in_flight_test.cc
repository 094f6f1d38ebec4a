#include "server/net/payloads_in_flight.h"

#include <thread>
#include <vector>

#include "tests/catch.h"

namespace capstan::server {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 20;
constexpr PeerId kOne{1}, kTwo{2};

TEST_CASE("a payload is in flight until its last reference is gone, on any thread", "[server][net]") {
  PayloadsInFlight payloads;
  BufferPool pool(kBytes);
  Slice slice = payloads.Track(kOne, WholeBuffer(pool.Take()));
  CHECK(slice.size == kBytes);
  CHECK(payloads.bytes_to(kOne) == kBytes);
  CHECK(payloads.RoomFor(kOne) == PayloadsInFlight::kPeerBytesMax - kBytes);
  CHECK(payloads.RoomFor(kTwo) == PayloadsInFlight::kPeerBytesMax);
  Slice copy = slice;
  slice = {};
  payloads.TakeReleased();
  CHECK(payloads.bytes_to(kOne) == kBytes);
  std::thread([&] { copy = {}; }).join();
  CHECK(pool.in_use_bytes() == 0);  // its memory is free at once
  payloads.TakeReleased();
  CHECK(payloads.bytes_to(kOne) == 0);
  CHECK(payloads.bytes() == 0);
}

TEST_CASE("a buffer that many peers are sent counts once", "[server][net]") {
  PayloadsInFlight payloads;
  BufferPool pool(kBytes);
  const Slice block = WholeBuffer(pool.Take());
  std::vector<Slice> sent;
  for (std::uint64_t peer = 1; peer <= 1000; ++peer) sent.push_back(payloads.Track(PeerId{peer}, block));
  CHECK(payloads.bytes() == kBytes);
  CHECK(payloads.RoomFor(PeerId{2000}) == PayloadsInFlight::kPeerBytesMax);
  sent.resize(1);
  payloads.TakeReleased();
  CHECK(payloads.bytes() == kBytes);
  sent.clear();
  payloads.TakeReleased();
  CHECK(payloads.bytes() == 0);
}

TEST_CASE("beyond the bound of all peers each is sent one payload at a time", "[server][net]") {
  PayloadsInFlight payloads;
  BufferPool pool(kBytes);
  payloads.LimitTo(4 * kBytes);
  std::vector<Slice> unread;
  for (int i = 0; i < 4; ++i) unread.push_back(payloads.Track(kOne, WholeBuffer(pool.Take())));
  CHECK(payloads.RoomFor(kOne) == 0);
  REQUIRE(payloads.RoomFor(kTwo) > 0);
  Slice read = payloads.Track(kTwo, WholeBuffer(pool.Take()));
  CHECK(payloads.RoomFor(kTwo) == 0);
  read = {};
  payloads.TakeReleased();
  CHECK(payloads.RoomFor(kTwo) > 0);
  unread.clear();
  payloads.TakeReleased();
  CHECK(payloads.RoomFor(kOne) == PayloadsInFlight::kPeerBytesMax);
}

TEST_CASE("payloads outlive what counts them, and small ones are not counted", "[server][net]") {
  BufferPool pool(kBytes);
  Slice slice;
  {
    PayloadsInFlight payloads;
    slice = payloads.Track(kOne, WholeBuffer(pool.Take()));
    const Slice whole = WholeBuffer(pool.Take());
    const Slice small{whole.owner, whole.data, PayloadsInFlight::kTrackedFrom - 1};
    CHECK(payloads.Track(kOne, small).owner.get() == small.owner.get());
    CHECK(payloads.bytes() == kBytes);
  }
  CHECK(slice.size == kBytes);
  slice = {};
  CHECK(pool.in_use_bytes() == 0);
}

}  // namespace
}  // namespace capstan::server
