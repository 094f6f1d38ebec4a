#include "server/weights_reader.h"

#include <catch2/catch.hpp>
#include <set>

#include "common/hash.h"

namespace capstan::server {
namespace {

constexpr std::uint32_t kElementsPerBlock = 2;

// Two shards with a tensor of many small blocks; answers pulls by hand.
struct ReaderBench {
  ReaderBench() {
    catalog = std::make_unique<Catalog>(std::move(Catalog::Create({{"w", {100}, {}}}, kElementsPerBlock)).value());
    const std::vector<WeightsReader::Source> sources = {{PeerId{1}, {0, Incarnation{10}, "a"}},
                                                        {PeerId{2}, {1, Incarnation{20}, "b"}}};
    reader = std::make_unique<WeightsReader>(catalog.get(), sources, Generation{3}, Version{9},
                                             [this](const Block& block, const Slice&) {
                                               CHECK(written.insert(block.flat_offset).second);
                                               return on_block;
                                             });
  }

  Message Answer(PeerId from, BlockIndex block) {
    Weights weights;
    weights.generation = Generation{3};
    weights.incarnation = Incarnation{from.value * 10};
    weights.version = Version{9};
    weights.block = block;
    const BufferRef buffer = pool.Take();
    buffer.As<float>()[0] = static_cast<float>(block);
    buffer.As<float>()[1] = 1.0F;
    Slice payload{buffer, buffer->data(), kElementsPerBlock * sizeof(float)};
    weights.payload_hash = Hash64(payload.bytes());
    return {weights, payload};
  }

  std::vector<std::pair<PeerId, Pull>> TakePulls() {
    std::vector<std::pair<PeerId, Pull>> pulls;
    for (const Envelope& envelope : out.envelopes)
      pulls.emplace_back(envelope.to, std::get<Pull>(envelope.message.header));
    out.Clear();
    return pulls;
  }

  std::unique_ptr<Catalog> catalog;
  BufferPool pool{64};
  std::set<std::uint64_t> written;
  Status on_block;
  std::unique_ptr<WeightsReader> reader;
  Outbox out;
  Instant now = std::chrono::seconds(1);
};

TEST_CASE("every block is asked for in windows and written once", "[server][weights]") {
  ReaderBench bench;
  bench.reader->Tick(bench.now, &bench.out);
  while (!bench.reader->done()) {
    const auto pulls = bench.TakePulls();
    REQUIRE_FALSE(pulls.empty());
    for (const auto& [peer, pull] : pulls) {
      CHECK(pull.version == Version{9});
      CHECK(pull.generation == Generation{3});
      CHECK(pull.blocks.size() <= WeightsReader::kWindow);
      for (BlockIndex block : pull.blocks) {
        CHECK(bench.reader->Handle(peer, bench.Answer(peer, block), bench.now, &bench.out));
        CHECK(bench.reader->Handle(peer, bench.Answer(peer, block), bench.now, &bench.out));  // a repeated one
      }
    }
  }
  CHECK(bench.written.size() == bench.catalog->blocks().size());
  CHECK(bench.reader->status().ok());
}

TEST_CASE("blocks that were lost are asked for again", "[server][weights]") {
  ReaderBench bench;
  bench.reader->Tick(bench.now, &bench.out);
  const auto first = bench.TakePulls();
  bench.reader->Tick(bench.now, &bench.out);
  CHECK(bench.TakePulls().empty());  // not at once
  for (BlockIndex block : first[0].second.blocks) {
    if (block != first[0].second.blocks[0]) {
      bench.reader->Handle(first[0].first, bench.Answer(first[0].first, block), bench.now, &bench.out);
    }
  }
  bench.reader->Tick(bench.now + std::chrono::seconds(10), &bench.out);
  const auto again = bench.TakePulls();
  REQUIRE(again.size() == 2);
  CHECK(again[0].second.blocks.front() == first[0].second.blocks.front());
}

TEST_CASE("weights of another life or generation, or from anybody else, are passed over", "[server][weights]") {
  ReaderBench bench;
  bench.reader->Tick(bench.now, &bench.out);
  const auto [peer, pull] = bench.TakePulls().front();
  Message old_life = bench.Answer(peer, pull.blocks[0]);
  std::get<Weights>(old_life.header).incarnation = Incarnation{9};
  CHECK(bench.reader->Handle(peer, old_life, bench.now, &bench.out));
  CHECK_FALSE(bench.reader->Handle(PeerId{77}, bench.Answer(peer, pull.blocks[0]), bench.now, &bench.out));
  CHECK(bench.written.empty());
}

TEST_CASE("a block whose bytes do not match its hash ends the reading and names the shard", "[server][weights]") {
  ReaderBench bench;
  bench.reader->Tick(bench.now, &bench.out);
  const auto [peer, pull] = bench.TakePulls().front();
  Message bad = bench.Answer(peer, pull.blocks[0]);
  std::get<Weights>(bad.header).payload_hash ^= 1;
  bench.reader->Handle(peer, bad, bench.now, &bench.out);
  CHECK(bench.reader->status().code() == Code::kCorrupt);
  CHECK(bench.reader->status().message().find("a: block") == 0);
  CHECK(bench.written.empty());
}

TEST_CASE("a file that cannot be written ends the reading", "[server][weights]") {
  ReaderBench bench;
  bench.on_block = Unreachable("the disk is full");
  bench.reader->Tick(bench.now, &bench.out);
  const auto [peer, pull] = bench.TakePulls().front();
  bench.reader->Handle(peer, bench.Answer(peer, pull.blocks[0]), bench.now, &bench.out);
  CHECK(bench.reader->status().message() == "the disk is full");
}

}  // namespace
}  // namespace capstan::server
