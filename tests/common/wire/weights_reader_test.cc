#include "common/wire/weights_reader.h"

#include <map>
#include <set>

#include "common/base/hash.h"
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/staged.h"
#include "common/wire/messages/weights.h"
#include "tests/catch.h"

namespace capstan {
namespace {

constexpr std::uint32_t kElementsPerBlock = 2;

// A reader of two shards, with a tensor of many small blocks. The test answers its pulls.
struct ReaderBench {
  explicit ReaderBench(std::uint32_t arrays = 1) {
    catalog = std::make_unique<Catalog>(std::move(Catalog::Create({{"w", {100}, {}}}, kElementsPerBlock)).value());
    const std::vector<WeightsReader::Source> sources = {{PeerId{1}, {0, Incarnation{10}, "a"}},
                                                        {PeerId{2}, {1, Incarnation{20}, "b"}}};
    reader = std::make_unique<WeightsReader>(
        catalog.get(), sources, Generation{3}, Version{9},
        [this](const Block& block, std::uint32_t array, const Slice&) {
          CHECK(written.insert({array, block.flat_offset}).second);
          return on_block;
        },
        arrays);
  }

  Message Answer(PeerId from, BlockIndex block, std::uint32_t array = 0) {
    Weights weights;
    weights.generation = Generation{3};
    weights.incarnation = Incarnation{from.value * 10};
    weights.version = weights.asked = Version{9};
    weights.block = block;
    weights.array = array;
    const BufferRef buffer = pool.Take();
    buffer.As<float>()[0] = static_cast<float>(block);
    buffer.As<float>()[1] = 1.0F;
    Slice payload{buffer, buffer->data(), kElementsPerBlock * sizeof(float)};
    weights.payload_hash = Hash64(payload.bytes());
    return {weights, payload};
  }

  std::vector<std::pair<PeerId, Pull>> TakePulls() {
    std::vector<std::pair<PeerId, Pull>> pulls;
    for (const Envelope& envelope : out.envelopes) {
      if (const auto* pull = envelope.message.header.As<Pull>()) pulls.emplace_back(envelope.to, *pull);
      if (const auto* query = envelope.message.header.As<CoverageQuery>()) questions.emplace_back(envelope.to, *query);
    }
    out.Clear();
    return pulls;
  }
  // Answers all questions: every block that has not arrived is lost.
  void AnswerQuestions() {
    for (const auto& [peer, query] : std::exchange(questions, {})) {
      Staged answer;
      answer.generation = query.generation;
      answer.incarnation = query.incarnation;
      answer.answers = query.question;
      reader->Handle(peer, {answer, {}}, now, &out);
    }
  }

  std::vector<std::pair<PeerId, CoverageQuery>> questions;
  std::unique_ptr<Catalog> catalog;
  BufferPool pool{64};
  std::set<std::pair<std::uint32_t, std::uint64_t>> written;  // arrays and where
  Status on_block;
  std::unique_ptr<WeightsReader> reader;
  Outbox out;
  Instant now = std::chrono::seconds(1);
};

TEST_CASE("every block is asked for in windows and written once", "[weights]") {
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

TEST_CASE("blocks that were lost are asked for again", "[weights]") {
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
  bench.TakePulls();  // what the line has room for again
  bench.now += std::chrono::seconds(10);
  bench.reader->Tick(bench.now, &bench.out);
  CHECK(bench.TakePulls().empty());
  CHECK(bench.questions.size() == 2);
  bench.AnswerQuestions();
  const auto again = bench.TakePulls();
  REQUIRE(again.size() == 2);
  CHECK(again[0].second.blocks.front() == first[0].second.blocks.front());
}

TEST_CASE("weights of another life or generation, or from anybody else, are passed over", "[weights]") {
  ReaderBench bench;
  bench.reader->Tick(bench.now, &bench.out);
  const auto [peer, pull] = bench.TakePulls().front();
  Message old_life = bench.Answer(peer, pull.blocks[0]);
  old_life.header.Get<Weights>().incarnation = Incarnation{9};
  CHECK(bench.reader->Handle(peer, old_life, bench.now, &bench.out));
  CHECK_FALSE(bench.reader->Handle(PeerId{77}, bench.Answer(peer, pull.blocks[0]), bench.now, &bench.out));
  CHECK(bench.written.empty());
}

TEST_CASE("shards that bring a block every 120 ms are asked for none of them twice", "[weights]") {
  ReaderBench bench;
  std::map<BlockIndex, int> asked;
  std::map<PeerId, std::vector<BlockIndex>> lines;
  for (int i = 0; i < 400 && !bench.reader->done(); ++i) {
    bench.now += std::chrono::milliseconds(10);
    bench.reader->Tick(bench.now, &bench.out);
    for (const auto& [peer, pull] : bench.TakePulls()) {
      for (BlockIndex block : pull.blocks) {
        if (++asked[block] == 1) lines[peer].push_back(block);
      }
    }
    for (auto& [peer, line] : lines) {
      if (i % 12 != 0 || line.empty()) continue;
      bench.reader->Handle(peer, bench.Answer(peer, line.front()), bench.now, &bench.out);
      line.erase(line.begin());
    }
  }
  CHECK(bench.reader->done());
  for (const auto& [block, times] : asked) CHECK((times == 1));
}

TEST_CASE("a pull that waits at its shard is not sent again", "[weights]") {
  ReaderBench bench;
  bench.reader->Tick(bench.now, &bench.out);
  bench.TakePulls();
  bench.now += std::chrono::seconds(10);
  bench.reader->Tick(bench.now, &bench.out);
  bench.TakePulls();
  Staged answer;
  answer.generation = Generation{3};
  answer.incarnation = Incarnation{10};
  answer.answers = bench.questions.at(0).second.question;
  answer.pull_waits = true;
  bench.reader->Handle(PeerId{1}, {answer, {}}, bench.now, &bench.out);
  CHECK(bench.TakePulls().empty());
}

TEST_CASE("a block whose bytes do not match its hash is asked for again, some times; then the reading ends",
          "[weights]") {
  ReaderBench bench;
  bench.reader->Tick(bench.now, &bench.out);
  const PeerId peer{1};
  for (unsigned i = 0; i <= WeightsReader::kDamagedMax; ++i) {
    CHECK(bench.reader->status().ok());
    for (const auto& [to, pull] : bench.TakePulls()) {
      for (BlockIndex block : pull.blocks) {
        if (to == peer && block != 0) bench.reader->Handle(peer, bench.Answer(peer, block), bench.now, &bench.out);
      }
    }
    Message bad = bench.Answer(peer, 0);
    bad.header.Get<Weights>().payload_hash ^= 1;
    bench.reader->Handle(peer, bad, bench.now, &bench.out);
  }
  CHECK(bench.reader->status().code() == Code::kCorrupt);
  CHECK(bench.reader->status().message().find("a: block 0") == 0);
}

TEST_CASE("a damaged block, then the good one: the reading is done", "[weights]") {
  ReaderBench bench;
  bool damaged = false;
  for (int i = 0; i < 100 && !bench.reader->done(); ++i) {
    bench.reader->Tick(bench.now, &bench.out);
    for (const auto& [peer, pull] : bench.TakePulls()) {
      for (BlockIndex block : pull.blocks) {
        Message answer = bench.Answer(peer, block);
        if (block == 0 && !std::exchange(damaged, true)) answer.header.Get<Weights>().payload_hash ^= 1;
        bench.reader->Handle(peer, answer, bench.now, &bench.out);
      }
    }
  }
  CHECK(bench.reader->done());
}

TEST_CASE("a file that cannot be written ends the reading", "[weights]") {
  ReaderBench bench;
  bench.on_block = Unreachable("the disk is full");
  bench.reader->Tick(bench.now, &bench.out);
  const auto [peer, pull] = bench.TakePulls().front();
  bench.reader->Handle(peer, bench.Answer(peer, pull.blocks[0]), bench.now, &bench.out);
  CHECK(bench.reader->status().message() == "the disk is full");
}

TEST_CASE("of each shard one array comes after the other", "[weights]") {
  ReaderBench bench(3);
  bench.reader->Tick(bench.now, &bench.out);
  while (!bench.reader->done()) {
    const auto pulls = bench.TakePulls();
    REQUIRE_FALSE(pulls.empty());
    for (const auto& [peer, pull] : pulls) {
      for (BlockIndex block : pull.blocks) {
        bench.reader->Handle(peer, bench.Answer(peer, block, (pull.array + 1) % 3), bench.now, &bench.out);  // unasked
        bench.reader->Handle(peer, bench.Answer(peer, block, pull.array), bench.now, &bench.out);
      }
    }
  }
  CHECK(bench.written.size() == 3 * bench.catalog->blocks().size());
  CHECK(bench.reader->WaitingFor().empty());
}

TEST_CASE("an answer to a question about another version is passed over", "[weights]") {
  ReaderBench bench;
  bench.reader->Tick(bench.now, &bench.out);
  const auto [peer, pull] = bench.TakePulls().front();
  Message late = bench.Answer(peer, pull.blocks[0]);
  late.header.Get<Weights>().asked = Version{8};
  CHECK(bench.reader->Handle(peer, late, bench.now, &bench.out));
  CHECK(bench.written.empty());
}

TEST_CASE("what a shard refuses says whether the version can still be had", "[weights]") {
  ReaderBench bench;
  bench.reader->Tick(bench.now, &bench.out);
  bench.TakePulls();
  const auto refuse = [&](Code code, std::uint64_t generation, std::uint64_t step) {
    const Error error{code, Generation{generation}, Incarnation{10}, Step{step}, {}, 0, "because"};
    bench.reader->Handle(PeerId{1}, {error, {}}, bench.now, &bench.out);
  };
  refuse(Code::kBusy, 3, 8);  // not as far yet
  bench.reader->Tick(bench.now + std::chrono::milliseconds(20), &bench.out);
  CHECK(bench.TakePulls().size() == 1);  // sooner than for lost blocks
  refuse(Code::kStale, 3, 4);            // of an older question
  CHECK_FALSE(bench.reader->passed());
  refuse(Code::kStale, 3, 12);
  CHECK(bench.reader->passed() == Step{12});
  CHECK_FALSE(bench.reader->outdated());
  refuse(Code::kBusy, 4, 0);
  CHECK(bench.reader->outdated());
  CHECK(bench.reader->status().ok());
  CHECK(bench.reader->WaitingFor().find("shard 0 at a (0 of 25 blocks of version 9 are here), shard 1") == 0);
}

}  // namespace
}  // namespace capstan
