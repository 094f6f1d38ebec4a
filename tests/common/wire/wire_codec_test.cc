#include "common/wire/wire_codec.h"

#include "common/wire/staged_runs.h"
#include "common/wire/transport.h"
#include "tests/catch.h"
#include "tests/common/wire/message_fields.h"

namespace capstan {
namespace {

constexpr std::size_t kKinds = std::variant_size_v<MessageVariant>;

std::vector<std::byte> Encoded(const Header& header) {
  std::vector<std::byte> bytes;
  const Status status = EncodeHeader(header, &bytes);
  INFO(status.ToString());
  REQUIRE(status.ok());
  return bytes;
}

Code CodeOf(const Header& header) {
  std::vector<std::byte> bytes;
  const Code code = EncodeHeader(header, &bytes).code();
  CHECK((code == Code::kOk || bytes.empty()));
  return code;
}

TEST_CASE("every message comes back as it was sent, whatever it holds", "[common][wire]") {
  RandomStream random(20);
  std::vector<std::byte> bytes;
  for (std::size_t round = 0; round < 300; ++round) {
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      Header sent = testing::RandomHeader(kind, random);
      REQUIRE(sent.any().index() == kind);
      const Status encoded = EncodeHeader(sent, &bytes);
      INFO("kind " << kind << ", round " << round << ": " << encoded.ToString());
      REQUIRE(encoded.ok());
      Result<Header> received = DecodeHeader(bytes);
      INFO(received.status().ToString());
      REQUIRE(received.ok());
      REQUIRE(testing::Same(sent, *received));
    }
  }
}

TEST_CASE("a header is read from any alignment", "[common][wire]") {
  RandomStream random(21);
  Header sent = testing::RandomHeader(16, random);
  const std::vector<std::byte> bytes = Encoded(sent);
  for (std::size_t shift = 0; shift < 8; ++shift) {
    std::vector<std::byte> moved(shift);
    moved.insert(moved.end(), bytes.begin(), bytes.end());
    Result<Header> received = DecodeHeader(std::span(moved).subspan(shift));
    REQUIRE(received.ok());
    CHECK(testing::Same(sent, *received));
  }
}

TEST_CASE("a header cut anywhere is corrupt", "[common][wire]") {
  RandomStream random(22);
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    const std::vector<std::byte> bytes = Encoded(testing::RandomHeader(kind, random));
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const Result<Header> received = DecodeHeader(std::span(bytes).first(size));
      REQUIRE(received.status().code() == Code::kCorrupt);
    }
  }
}

// Bytes that are accepted after damage must be a message that could have been sent.
void CheckDamaged(std::span<const std::byte> bytes) {
  Result<Header> received = DecodeHeader(bytes);
  if (!received.ok()) {
    CHECK((received.status().code() == Code::kCorrupt || received.status().code() == Code::kUnsupported));
    return;
  }
  Result<Header> again = DecodeHeader(Encoded(*received));
  REQUIRE(again.ok());
  CHECK(testing::Same(*received, *again));
}

TEST_CASE("a damaged header is refused or read as another valid message, never more", "[common][wire]") {
  RandomStream random(23);
  for (std::size_t round = 0; round < 400; ++round) {
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      std::vector<std::byte> bytes = Encoded(testing::RandomHeader(kind, random));
      for (std::uint64_t flips = 1 + random.Below(4); flips > 0; --flips) {
        bytes[random.Below(bytes.size())] ^= static_cast<std::byte>(1U << random.Below(8));
      }
      CheckDamaged(bytes);
    }
  }
}

TEST_CASE("a header with words of noise in it is refused or read as another valid message", "[common][wire]") {
  RandomStream random(24);
  for (std::size_t round = 0; round < 20000; ++round) {
    std::vector<std::byte> bytes = Encoded(testing::RandomHeader(random.Below(kKinds), random));
    const std::uint64_t noise = random.Next64() >> random.Below(64);
    std::memcpy(bytes.data() + random.Below(bytes.size() / 8) * 8, &noise, 8);
    CheckDamaged(bytes);
  }
}

TEST_CASE("bytes of another protocol or version are named as such", "[common][wire]") {
  std::vector<std::byte> bytes = Encoded(Ping{{1}, {2}});
  CHECK(DecodeHeader({}).status().code() == Code::kCorrupt);
  std::vector<std::byte> version = bytes;
  version[8 + 8 + 4] = std::byte{9};
  CHECK(DecodeHeader(version).status().code() == Code::kUnsupported);
  CHECK(DecodeHeader(version).status().message().find("version 9") != std::string::npos);
  std::vector<std::byte> magic = bytes;
  magic[8 + 8] ^= std::byte{1};
  CHECK(DecodeHeader(magic).status().code() == Code::kCorrupt);
}

TEST_CASE("an unknown kind or an enum out of range is corrupt", "[common][wire]") {
  std::vector<std::byte> kind = Encoded(Ping{});
  kind[8 + 8 + 6] = std::byte{200};
  CHECK(DecodeHeader(kind).status().message().find("unknown kind 200") != std::string::npos);
  Error error;
  error.code = static_cast<Code>(77);
  CHECK(DecodeHeader(Encoded(error)).status().message().find("unknown value 77") != std::string::npos);
}

TEST_CASE("limits hold in both directions", "[common][wire]") {
  Pull pull;
  pull.blocks.resize(kListEntriesMax);
  CHECK(DecodeHeader(Encoded(pull)).ok());
  pull.blocks.resize(kListEntriesMax + 1);
  CHECK(CodeOf(pull) == Code::kInvalid);
  pull.blocks.clear();
  pull.ahead.resize(kListEntriesMax);
  CHECK(DecodeHeader(Encoded(pull)).ok());
  pull.ahead.resize(kListEntriesMax + 1);
  CHECK(CodeOf(pull) == Code::kInvalid);

  Redo redo;
  redo.trust_ratios.resize(kTensorsMax);
  CHECK(DecodeHeader(Encoded(redo)).ok());
  redo.trust_ratios.resize(kListEntriesMax + 1);
  CHECK(CodeOf(redo) == Code::kInvalid);
  Prepared prepared;
  std::vector<double>* const sums[] = {&prepared.report.segment_squares, &prepared.report.weight_squares,
                                       &prepared.report.direction_squares};
  for (std::vector<double>* list : sums) list->resize(kListEntriesMax);
  CHECK(DecodeHeader(Encoded(prepared)).ok());
  for (std::vector<double>* list : sums) {
    list->resize(kListEntriesMax + 1);
    CHECK(CodeOf(prepared) == Code::kInvalid);
    list->resize(kListEntriesMax);
  }

  Join join;
  join.worker = std::string(kTextBytesMax, 'w');
  CHECK(DecodeHeader(Encoded(join)).ok());
  join.worker += 'w';
  CHECK(CodeOf(join) == Code::kInvalid);
  join.worker = "\xFF";
  CHECK(CodeOf(join) == Code::kInvalid);
  join.worker = std::string("a\0b", 3);
  CHECK(CodeOf(join) == Code::kInvalid);
  join.worker = "w";
  join.catalog.resize(1);
  join.catalog[0].shape.resize(kDimensionsMax + 1);
  CHECK(CodeOf(join) == Code::kInvalid);

  View view;
  view.job_file = std::string(kJobFileBytesMax, 'j');
  CHECK(DecodeHeader(Encoded(view)).ok());
  view.job_file += 'j';
  CHECK(CodeOf(view) == Code::kInvalid);
}

TEST_CASE("a program's state is any bytes, up to its limit", "[common][wire]") {
  std::string state("\0\xFF{", 3);
  state.resize(kProgramStateBytesMax, '\xFE');
  EndSlot end;
  Weights weights;
  Published published;
  Commit commit;
  Prepared prepared;
  for (std::string* place : {&end.program_state, &weights.program_state, &published.program_state,
                             &commit.next.program_state, &prepared.report.program_state}) {
    *place = state;
  }
  CHECK(DecodeHeader(Encoded(end)).value().Get<EndSlot>().program_state == state);
  CHECK(DecodeHeader(Encoded(weights)).value().Get<Weights>().program_state == state);
  CHECK(DecodeHeader(Encoded(published)).value().Get<Published>().program_state == state);
  CHECK(DecodeHeader(Encoded(commit)).value().Get<Commit>() == commit);
  CHECK(DecodeHeader(Encoded(prepared)).value().Get<Prepared>().report == prepared.report);
  Hello hello;  // the largest header that has one
  hello.last_commit = commit;
  hello.prepared = prepared;
  CHECK(DecodeHeader(Encoded(hello)).ok());
  end.program_state += '\xFE';
  CHECK(CodeOf(end) == Code::kInvalid);
}

TEST_CASE("a catalog of the largest number of tensors travels", "[common][wire]") {
  RandomStream random(25);
  Reset reset;
  reset.catalog.resize(kTensorsMax);
  for (std::size_t i = 0; i < reset.catalog.size(); ++i) {
    reset.catalog[i] = {
        "layers." + std::to_string(i) + ".attention.weight", {768, 768}, {InitKind::kNormal, 0.02F}, true};
  }
  Header sent = reset;
  const std::vector<std::byte> bytes = Encoded(sent);
  CHECK(bytes.size() < kHeaderBytesMax);
  Result<Header> received = DecodeHeader(bytes);
  REQUIRE(received.ok());
  CHECK(testing::Same(sent, *received));
  for (TensorSpec& tensor : reset.catalog) tensor.name = std::string(512, 'n');
  CHECK(CodeOf(reset) == Code::kInvalid);
}

TEST_CASE("what people read is cut and cleaned, not refused", "[common][wire]") {
  Error error;
  error.message = "disk \xFF\xFE full\xC3\xA9";
  CHECK(DecodeHeader(Encoded(error))->Get<Error>().message == "disk ?? full\xC3\xA9");
  error.message = std::string(kTextBytesMax - 1, 'x') + "\xE2\x82\xAC";
  CHECK(DecodeHeader(Encoded(error))->Get<Error>().message == std::string(kTextBytesMax - 1, 'x'));
}

// A few words that claim much: lists of empty elements, and many pointers to one text.
TEST_CASE("a small header cannot grow into a large message", "[common][wire]") {
  RandomStream random(26);
  Join join;
  join.catalog.resize(1000);
  for (TensorSpec& tensor : join.catalog) tensor.name = "n";
  join.catalog[0].name = std::string(kTextBytesMax, 'n');
  std::vector<std::byte> bytes = Encoded(join);
  // Each later name becomes a far-reaching pointer to the first one: the same words read a thousand times.
  std::vector<std::uint64_t> words(bytes.size() / 8);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  std::size_t first = 0, redirected = 0;
  const auto is_text = [&](std::size_t at, std::uint64_t size) {
    return (words[at] & 3) == 1 && ((words[at] >> 32) & 7) == 2 && (words[at] >> 35) == size;
  };
  while (first < words.size() && !is_text(first, kTextBytesMax + 1)) ++first;
  REQUIRE(first < words.size());
  const std::uint64_t target = first + 1 + ((words[first] & 0xFFFFFFFF) >> 2);
  for (std::size_t at = first + 1; at < target; ++at) {
    if (!is_text(at, 2)) continue;
    words[at] = (words[first] & ~std::uint64_t{0xFFFFFFFF}) | std::uint32_t((target - at - 1) << 2) | 1;
    ++redirected;
  }
  REQUIRE(redirected > 500);
  std::memcpy(bytes.data(), words.data(), bytes.size());
  const Status status = DecodeHeader(bytes).status();
  INFO(status.ToString());
  CHECK(status.code() == Code::kCorrupt);
}

TEST_CASE("what a shard of 100,000 blocks holds of a step fits a frame, and comes back whole", "[common][wire]") {
  constexpr std::uint32_t kBlocks = 100'000, kShards = 1000;
  const auto round_trip = [](const Staged& staged, std::size_t bytes_max) {
    std::vector<std::byte> bytes;
    const Status encoded = EncodeHeader(staged, &bytes);
    INFO(encoded.message());
    REQUIRE(encoded.ok());
    CHECK(bytes.size() <= bytes_max);
    const Result<Header> decoded = DecodeHeader(bytes);
    REQUIRE(decoded.ok());
    CHECK(decoded->As<Staged>()->held == staged.held);
    CHECK(decoded->As<Staged>()->ended == staged.ended);
  };
  Staged staged;
  staged.full = true;
  staged.ended = {3};
  for (std::uint32_t i = 0; i < kBlocks; ++i) {
    const BlockIndex block = 7 + i * kShards;
    staged.held.push_back({block, {0, 4}});
    if (i > kBlocks / 2) staged.held.push_back({block, {4, 5}});
  }
  ArrangeToFit(&staged.held);
  CHECK(staged.held.size() == kBlocks + kBlocks / 2 - 1);
  round_trip(staged, 1000);
  // Nodes without any order: as many as fit are named; the others are pushed again.
  staged.held.clear();
  for (std::uint32_t i = 0; i < 4 * kBlocks; ++i) staged.held.push_back({i * i, {i % 7, i % 7 + 1}});
  const std::vector<StagedNode> all = staged.held;
  ArrangeToFit(&staged.held);
  CHECK(staged.held.size() < all.size());
  CHECK(RunsOf(staged.held).size() <= kStagedRunsMax);
  round_trip(staged, TransportOptions().frame_bytes_max);
  std::vector<std::byte> bytes;
  staged.held = all;
  CHECK(EncodeHeader(staged, &bytes).code() == Code::kInvalid);
  staged.held.clear();
  for (std::uint32_t i = 0; i <= kStagedNodesMax; ++i) staged.held.push_back({i, {0, 1}});
  CHECK(EncodeHeader(staged, &bytes).code() == Code::kInvalid);
  staged.held.pop_back();
  round_trip(staged, 1000);
}

}  // namespace
}  // namespace capstan
