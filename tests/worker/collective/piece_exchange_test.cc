// How messages are cut into pieces: what is in flight, and what a rank may not send.
#include "worker/collective/piece_exchange.h"

#include <numeric>

#include "tests/catch.h"

namespace capstan::collective {
namespace {

using Catch::Matchers::Contains;

constexpr std::size_t kPiece = PieceExchange::kPieceBytes, kMax = PieceExchange::kUnansweredBytesMax;

// Two ranks, and what they have put out for each other. Messages are delivered when a test says so.
struct Pair {
  PieceExchange ranks[2] = {PieceExchange(2), PieceExchange(2)};
  Outgoings out[2];
  std::size_t in_flight_max = 0;

  std::size_t PayloadOf(int rank) const {
    return std::accumulate(out[rank].begin(), out[rank].end(), std::size_t{0},
                           [](std::size_t sum, const Outgoing& outgoing) { return sum + outgoing.payload.size(); });
  }
  // Delivers what a rank has put out.
  void Deliver(int from) {
    in_flight_max = std::max(in_flight_max, PayloadOf(from));
    for (const Outgoing& outgoing : std::exchange(out[from], {})) {
      const int to = 1 - from;
      const auto* piece = outgoing.header.As<MeshPiece>();
      CHECK(outgoing.is_answer == (piece == nullptr));
      REQUIRE((piece != nullptr ? ranks[to].On(from, *piece, outgoing.payload, &out[to])
                                : ranks[to].On(from, outgoing.header.Get<MeshGrant>(), &out[to]))
                  .ok());
      ranks[from].Released(to, outgoing.message, outgoing.payload.size());
    }
  }
  void DeliverAll() {
    while (!out[0].empty() || !out[1].empty()) {
      Deliver(0);
      Deliver(1);
    }
  }
};

std::vector<std::byte> Bytes(std::size_t count, unsigned seed) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>((i * 131 + seed) >> 3);
  return bytes;
}

MeshMessage ToSend(const std::vector<std::byte>& bytes, Tag tag) { return {1, tag, bytes.size(), bytes.data()}; }
MeshMessage ToReceive(std::vector<std::byte>* bytes, Tag tag) {
  return {0, tag, bytes->size(), nullptr, bytes->data()};
}

TEST_CASE("messages of all sizes arrive, in whatever order their receives begin", "[collective]") {
  Pair pair;
  const std::vector<std::size_t> sizes = {1, kPiece - 1, kPiece, kPiece + 1, kMax + 3 * kPiece + 5};
  std::vector<std::vector<std::byte>> from, to;
  std::vector<MeshMessage> sends, receives;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    from.push_back(Bytes(sizes[i], static_cast<unsigned>(i)));
    to.emplace_back(sizes[i]);
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    sends.push_back(ToSend(from[i], i));
    receives.push_back(ToReceive(&to[i], i));
  }
  for (MeshMessage& send : sends) pair.ranks[0].Begin(&send, &pair.out[0]);
  CHECK(pair.out[0].empty());  // nobody has memory for them yet
  for (std::size_t i = sizes.size(); i-- > 0;) {
    pair.ranks[1].Begin(&receives[i], &pair.out[1]);
    pair.DeliverAll();
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    CHECK(sends[i].done);
    CHECK(receives[i].done);
    CHECK(from[i] == to[i]);
  }
  CHECK(pair.in_flight_max <= kMax);
  CHECK_FALSE(pair.ranks[0].IsBusyWith(1));
  CHECK_FALSE(pair.ranks[1].IsBusyWith(0));
}

TEST_CASE("no more than the limit is in flight to a rank that does not answer", "[collective]") {
  Pair pair;
  const std::vector<std::byte> from = Bytes(3 * kMax, 1);
  std::vector<std::byte> to(from.size());
  MeshMessage first = ToSend(from, 1), second = ToSend(from, 2);
  MeshMessage receive = ToReceive(&to, 1), other = ToReceive(&to, 2);
  pair.ranks[1].Begin(&receive, &pair.out[1]);
  pair.ranks[1].Begin(&other, &pair.out[1]);
  pair.Deliver(1);
  pair.ranks[0].Begin(&first, &pair.out[0]);
  pair.ranks[0].Begin(&second, &pair.out[0]);
  CHECK(pair.PayloadOf(0) == kMax);
  CHECK_FALSE(first.done);
}

TEST_CASE("a send is done when the receiver has reported all of it, not before", "[collective]") {
  Pair pair;
  const std::vector<std::byte> from = Bytes(10, 1);
  std::vector<std::byte> to(from.size());
  MeshMessage send = ToSend(from, 1), receive = ToReceive(&to, 1);
  pair.ranks[0].Begin(&send, &pair.out[0]);
  pair.ranks[1].Begin(&receive, &pair.out[1]);
  pair.Deliver(1);
  pair.Deliver(0);
  CHECK(receive.done);
  CHECK_FALSE(send.done);
  pair.Deliver(1);
  CHECK(send.done);
}

TEST_CASE("a send whose bytes the transport still reads is not done, whatever the receiver reports", "[collective]") {
  PieceExchange exchange(2);
  Outgoings out;
  const std::vector<std::byte> bytes = Bytes(kPiece + 10, 1);
  MeshMessage send = ToSend(bytes, 1);
  exchange.Begin(&send, &out);
  REQUIRE(exchange.On(1, MeshGrant{1, send.size, 0}, &out).ok());
  REQUIRE(out.size() == 2);
  REQUIRE(exchange.On(1, MeshGrant{1, send.size, send.size}, &out).ok());
  CHECK_FALSE(send.done);
  exchange.Released(1, out[0].message, out[0].payload.size());
  CHECK_FALSE(send.done);
  CHECK(exchange.IsBusyWith(1));
  exchange.Released(1, out[1].message, out[1].payload.size());
  CHECK(send.done);
  CHECK_FALSE(exchange.IsBusyWith(1));
}

TEST_CASE("what the transport releases after a message was given up is no part of it", "[collective]") {
  PieceExchange exchange(2);
  Outgoings out;
  const std::vector<std::byte> bytes = Bytes(10, 1);
  MeshMessage send = ToSend(bytes, 1);
  exchange.Begin(&send, &out);
  REQUIRE(exchange.On(1, MeshGrant{1, send.size, 0}, &out).ok());
  exchange.Clear();
  exchange.Released(1, &send, send.size);
  CHECK(send.released == 0);
  CHECK_FALSE(send.done);
}

TEST_CASE("messages of different sizes or tags never match", "[collective]") {
  Pair pair;
  const std::vector<std::byte> from = Bytes(10, 1);
  std::vector<std::byte> longer(11), same(10);
  MeshMessage send = ToSend(from, 1), receive = ToReceive(&longer, 1), other = ToReceive(&same, 2);
  pair.ranks[0].Begin(&send, &pair.out[0]);
  pair.ranks[1].Begin(&receive, &pair.out[1]);
  pair.ranks[1].Begin(&other, &pair.out[1]);
  pair.DeliverAll();
  CHECK_FALSE(send.done);
  CHECK(pair.ranks[0].IsBusyWith(1));
}

TEST_CASE("what no rank of this build sends is refused, and writes nothing", "[collective]") {
  PieceExchange exchange(2);
  Outgoings out;
  std::vector<std::byte> to(100), payload = Bytes(200, 9);
  const std::vector<std::byte> untouched = to;
  MeshMessage receive = ToReceive(&to, 7);
  const auto piece = [&](Tag tag, std::size_t size, std::size_t offset, std::size_t bytes) {
    return exchange.On(0, MeshPiece{tag, size, offset}, std::span(payload).first(bytes), &out).message();
  };
  CHECK_THAT(piece(7, 100, 0, 10), Contains("nobody waits for"));
  exchange.Begin(&receive, &out);
  CHECK_THAT(piece(8, 100, 0, 10), Contains("nobody waits for"));
  CHECK_THAT(piece(7, 101, 0, 10), Contains("nobody waits for"));
  CHECK_THAT(piece(7, 100, 1, 10), Contains("a part of a message was lost"));
  CHECK_THAT(piece(7, 100, 100, 10), Contains("10 bytes at 100 of a message of 100 bytes, of which 0 have come"));
  CHECK_THAT(piece(7, 100, 0, 101), Contains("101 bytes at 0"));
  CHECK_THAT(piece(7, 100, 0, 0), Contains("0 bytes at 0"));
  CHECK_THAT(piece(7, 100, ~std::size_t{0}, 10), Contains("of a message of 100 bytes"));
  CHECK(to == untouched);

  const auto grant = [&](std::size_t received) { return exchange.On(1, MeshGrant{5, 100, received}, &out); };
  CHECK_THAT(grant(10).message(), Contains("were not sent"));
  MeshMessage send{1, 5, 100, payload.data()};
  exchange.Begin(&send, &out);
  CHECK_THAT(grant(10).message(), Contains("were not sent"));
  REQUIRE(grant(0).ok());
  CHECK_THAT(grant(101).message(), Contains("were not sent"));
  exchange.Released(1, &send, 100);
  REQUIRE(grant(50).ok());
  CHECK_THAT(grant(50).message(), Contains("were not sent"));
  CHECK_THAT(grant(49).message(), Contains("were not sent"));
  REQUIRE(grant(100).ok());
  CHECK(send.done);

  Status status;
  for (std::uint64_t tag = 100; status.ok() && tag < 100'000; ++tag)
    status = exchange.On(1, MeshGrant{tag, 1, 0}, &out);
  CHECK_THAT(status.message(), Contains("too many messages at once"));
}

TEST_CASE("given up messages are not done, and their memory is not used any more", "[collective]") {
  Pair pair;
  const std::vector<std::byte> from = Bytes(10, 1);
  std::vector<std::byte> to(from.size());
  const std::vector<std::byte> untouched = to;
  MeshMessage send = ToSend(from, 1), receive = ToReceive(&to, 1);
  pair.ranks[0].Begin(&send, &pair.out[0]);
  pair.ranks[1].Begin(&receive, &pair.out[1]);
  pair.Deliver(1);
  pair.ranks[1].Clear();
  const Outgoing& piece = pair.out[0].front();
  CHECK_FALSE(pair.ranks[1].On(0, piece.header.Get<MeshPiece>(), piece.payload, &pair.out[1]).ok());
  CHECK_FALSE(receive.done);
  CHECK(to == untouched);
}

}  // namespace
}  // namespace capstan::collective
