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
struct ReaderHarness {
  explicit ReaderHarness(std::uint32_t arrays = 1) {
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
  ReaderHarness harness;
  harness.reader->Tick(harness.now, &harness.out);
  while (!harness.reader->done()) {
    const auto pulls = harness.TakePulls();
    REQUIRE_FALSE(pulls.empty());
    for (const auto& [peer, pull] : pulls) {
      CHECK(pull.version == Version{9});
      CHECK(pull.generation == Generation{3});
      CHECK(pull.blocks.size() <= WeightsReader::kWindow);
      for (BlockIndex block : pull.blocks) {
        CHECK(harness.reader->Handle(peer, harness.Answer(peer, block), harness.now, &harness.out));
        CHECK(harness.reader->Handle(peer, harness.Answer(peer, block), harness.now, &harness.out));  // a repeated one
      }
    }
  }
  CHECK(harness.written.size() == harness.catalog->blocks().size());
  CHECK(harness.reader->status().ok());
}

TEST_CASE("blocks that were lost are asked for again", "[weights]") {
  ReaderHarness harness;
  harness.reader->Tick(harness.now, &harness.out);
  const auto first = harness.TakePulls();
  harness.reader->Tick(harness.now, &harness.out);
  CHECK(harness.TakePulls().empty());  // not at once
  for (BlockIndex block : first[0].second.blocks) {
    if (block != first[0].second.blocks[0]) {
      harness.reader->Handle(first[0].first, harness.Answer(first[0].first, block), harness.now, &harness.out);
    }
  }
  harness.TakePulls();  // what the line has room for again
  harness.now += std::chrono::seconds(10);
  harness.reader->Tick(harness.now, &harness.out);
  CHECK(harness.TakePulls().empty());
  CHECK(harness.questions.size() == 2);
  harness.AnswerQuestions();
  const auto again = harness.TakePulls();
  REQUIRE(again.size() == 2);
  CHECK(again[0].second.blocks.front() == first[0].second.blocks.front());
}

TEST_CASE("weights of another life or generation, or from anybody else, are passed over", "[weights]") {
  ReaderHarness harness;
  harness.reader->Tick(harness.now, &harness.out);
  const auto [peer, pull] = harness.TakePulls().front();
  Message old_life = harness.Answer(peer, pull.blocks[0]);
  old_life.header.Get<Weights>().incarnation = Incarnation{9};
  CHECK(harness.reader->Handle(peer, old_life, harness.now, &harness.out));
  CHECK_FALSE(harness.reader->Handle(PeerId{77}, harness.Answer(peer, pull.blocks[0]), harness.now, &harness.out));
  CHECK(harness.written.empty());
}

TEST_CASE("shards that bring a block every 120 ms are asked for none of them twice", "[weights]") {
  ReaderHarness harness;
  std::map<BlockIndex, int> asked;
  std::map<PeerId, std::vector<BlockIndex>> lines;
  for (int i = 0; i < 400 && !harness.reader->done(); ++i) {
    harness.now += std::chrono::milliseconds(10);
    harness.reader->Tick(harness.now, &harness.out);
    for (const auto& [peer, pull] : harness.TakePulls()) {
      for (BlockIndex block : pull.blocks) {
        if (++asked[block] == 1) lines[peer].push_back(block);
      }
    }
    for (auto& [peer, line] : lines) {
      if (i % 12 != 0 || line.empty()) continue;
      harness.reader->Handle(peer, harness.Answer(peer, line.front()), harness.now, &harness.out);
      line.erase(line.begin());
    }
  }
  CHECK(harness.reader->done());
  for (const auto& [block, times] : asked) CHECK((times == 1));
}

TEST_CASE("a pull that waits at its shard is not sent again", "[weights]") {
  ReaderHarness harness;
  harness.reader->Tick(harness.now, &harness.out);
  harness.TakePulls();
  harness.now += std::chrono::seconds(10);
  harness.reader->Tick(harness.now, &harness.out);
  harness.TakePulls();
  Staged answer;
  answer.generation = Generation{3};
  answer.incarnation = Incarnation{10};
  answer.answers = harness.questions.at(0).second.question;
  answer.pull_waits = true;
  harness.reader->Handle(PeerId{1}, {answer, {}}, harness.now, &harness.out);
  CHECK(harness.TakePulls().empty());
}

TEST_CASE("a block whose bytes do not match its hash is asked for again, some times; then the reading ends",
          "[weights]") {
  ReaderHarness harness;
  harness.reader->Tick(harness.now, &harness.out);
  const PeerId peer{1};
  for (unsigned i = 0; i <= WeightsReader::kDamagedMax; ++i) {
    CHECK(harness.reader->status().ok());
    for (const auto& [to, pull] : harness.TakePulls()) {
      for (BlockIndex block : pull.blocks) {
        if (to == peer && block != 0)
          harness.reader->Handle(peer, harness.Answer(peer, block), harness.now, &harness.out);
      }
    }
    Message bad = harness.Answer(peer, 0);
    bad.header.Get<Weights>().payload_hash ^= 1;
    harness.reader->Handle(peer, bad, harness.now, &harness.out);
  }
  CHECK(harness.reader->status().code() == Code::kCorrupt);
  CHECK(harness.reader->status().message().find("a: block 0") == 0);
}

TEST_CASE("a damaged block, then the good one: the reading is done", "[weights]") {
  ReaderHarness harness;
  bool damaged = false;
  for (int i = 0; i < 100 && !harness.reader->done(); ++i) {
    harness.reader->Tick(harness.now, &harness.out);
    for (const auto& [peer, pull] : harness.TakePulls()) {
      for (BlockIndex block : pull.blocks) {
        Message answer = harness.Answer(peer, block);
        if (block == 0 && !std::exchange(damaged, true)) answer.header.Get<Weights>().payload_hash ^= 1;
        harness.reader->Handle(peer, answer, harness.now, &harness.out);
      }
    }
  }
  CHECK(harness.reader->done());
}

TEST_CASE("a file that cannot be written ends the reading", "[weights]") {
  ReaderHarness harness;
  harness.on_block = Unreachable("the disk is full");
  harness.reader->Tick(harness.now, &harness.out);
  const auto [peer, pull] = harness.TakePulls().front();
  harness.reader->Handle(peer, harness.Answer(peer, pull.blocks[0]), harness.now, &harness.out);
  CHECK(harness.reader->status().message() == "the disk is full");
}

TEST_CASE("of each shard one array comes after the other", "[weights]") {
  ReaderHarness harness(3);
  harness.reader->Tick(harness.now, &harness.out);
  while (!harness.reader->done()) {
    const auto pulls = harness.TakePulls();
    REQUIRE_FALSE(pulls.empty());
    for (const auto& [peer, pull] : pulls) {
      for (BlockIndex block : pull.blocks) {
        harness.reader->Handle(peer, harness.Answer(peer, block, (pull.array + 1) % 3), harness.now,
                               &harness.out);  // unasked
        harness.reader->Handle(peer, harness.Answer(peer, block, pull.array), harness.now, &harness.out);
      }
    }
  }
  CHECK(harness.written.size() == 3 * harness.catalog->blocks().size());
  CHECK(harness.reader->WaitingFor().empty());
}

TEST_CASE("an answer to a question about another version is passed over", "[weights]") {
  ReaderHarness harness;
  harness.reader->Tick(harness.now, &harness.out);
  const auto [peer, pull] = harness.TakePulls().front();
  Message late = harness.Answer(peer, pull.blocks[0]);
  late.header.Get<Weights>().asked = Version{8};
  CHECK(harness.reader->Handle(peer, late, harness.now, &harness.out));
  CHECK(harness.written.empty());
}

TEST_CASE("what a shard refuses says whether the version can still be had", "[weights]") {
  ReaderHarness harness;
  harness.reader->Tick(harness.now, &harness.out);
  harness.TakePulls();
  const auto refuse = [&](Code code, std::uint64_t generation, std::uint64_t step) {
    const Error error{code, Generation{generation}, Incarnation{10}, Step{step}, {}, 0, "because"};
    harness.reader->Handle(PeerId{1}, {error, {}}, harness.now, &harness.out);
  };
  refuse(Code::kBusy, 3, 8);  // not as far yet
  harness.reader->Tick(harness.now + std::chrono::milliseconds(20), &harness.out);
  CHECK(harness.TakePulls().size() == 1);  // sooner than for lost blocks
  refuse(Code::kStale, 3, 4);              // of an older question
  CHECK_FALSE(harness.reader->passed());
  refuse(Code::kStale, 3, 12);
  CHECK(harness.reader->passed() == Step{12});
  CHECK_FALSE(harness.reader->outdated());
  refuse(Code::kBusy, 4, 0);
  CHECK(harness.reader->outdated());
  CHECK(harness.reader->status().ok());
  CHECK(harness.reader->WaitingFor().find("shard 0 at a (0 of 25 blocks of version 9 are here), shard 1") == 0);
}

TEST_CASE("a shard that does not let the reader in ends the reading, with its words", "[reader][keys]") {
  ReaderHarness harness;
  harness.reader->Handle(PeerId{2}, {Error{Code::kRefused, {}, {}, {}, {}, 0, "not this key"}, {}}, harness.now,
                         &harness.out);
  CHECK(harness.reader->status().code() == Code::kRefused);
  CHECK(harness.reader->status().message() == "b: not this key");
}

}  // namespace
}  // namespace capstan
