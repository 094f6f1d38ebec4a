#include "common/wire/wire_codec.h"

#include "common/wire/staged_runs.h"
#include "common/wire/transport.h"
#include "tests/catch.h"
#include "tests/common/wire/random_messages.h"
#include "tests/tier.h"

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

// Checks that damaged bytes are refused, or are a message that could have been sent.
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
  for (int tries = testing::TriesOfTier(800); tries > 0; --tries) {
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
  for (int tries = testing::TriesOfTier(40000); tries > 0; --tries) {
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

// Fills one list or text of a message, number `chosen` in the order of Fields, to its limit and `excess` beyond.
class FillToLimit {
 public:
  FillToLimit(std::size_t chosen, std::size_t excess) : chosen_(chosen), excess_(excess) {}
  // Returns how many lists and texts the message has.
  std::size_t count() const { return count_; }

  template <class T, class... How>
  void operator()(T& member, const How&...) {
    if constexpr (std::is_same_v<T, std::string>) {
      Resize(member, kTextBytesMax, 'x');
    } else if constexpr (std::is_class_v<T> && requires { Fields(*this, member); }) {
      Fields(*this, member);
    }
  }
  template <class T, class Name>
  void operator()(std::optional<T>& part, const Name&) {
    Fields(*this, part.emplace());
  }
  template <class Name>
  void operator()(std::string& text, const Name&, form::Text form) {
    Resize(text, form.bytes_max, 'x');
  }
  template <class Name>
  void operator()(std::string&, const Name&, form::UserText) {}
  template <class Name>
  void operator()(std::string& bytes, const Name&, form::Bytes form) {
    Resize(bytes, form.bytes_max, '\xFF');
  }
  template <class T, class Name>
  void operator()(std::vector<T>& list, const Name&, form::List form = {}) {
    Resize(list, form.entries_max, T());
    if constexpr (requires { Fields(*this, list[0]); }) {
      if (list.empty()) list.resize(1);
      Fields(*this, list[0]);
    }
  }
  template <class T, class Name>
  void operator()(std::vector<T>& list, const Name& name, form::OptionalList form) {
    (*this)(list, name, form::List{form.entries_max});
  }
  template <class Name>
  void operator()(std::vector<StagedNode>& nodes, const Name&, form::Nodes) {
    Resize(nodes, kStagedNodesMax, StagedNode());
  }

 private:
  void Resize(auto& list, std::size_t max, auto element) {
    if (count_++ == chosen_) list.resize(max + excess_, element);
  }

  const std::size_t chosen_, excess_;
  std::size_t count_ = 0;
};

template <class T>
std::size_t CheckLimits() {
  std::size_t count = 1;
  for (std::size_t i = 0; i < count; ++i) {
    INFO("list or text " << i << " of " << HeaderField(static_cast<T*>(nullptr)).title);
    T most, beyond;
    FillToLimit to_limit(i, 0), over(i, 1);
    Fields(to_limit, most);
    Fields(over, beyond);
    count = to_limit.count();
    const Result<Header> back = DecodeHeader(Encoded(most));
    REQUIRE(back.ok());
    CHECK(testing::Same(back->Get<T>(), most));
    if (count > 0) CHECK(CodeOf(beyond) == Code::kInvalid);
  }
  return count;
}

template <class... Ts>
struct AllLimits {
  static std::size_t Check() { return (CheckLimits<Ts>() + ...); }
};

TEST_CASE("every list and text holds as much as its limit says, and no more", "[common][wire]") {
  CHECK(MessageTypes::In<AllLimits>::Check() > 60);
}

TEST_CASE("a text is UTF-8 without zero bytes", "[common][wire]") {
  Join join;
  join.worker = "w\xC3\xA9";
  CHECK(DecodeHeader(Encoded(join)).ok());
  join.worker = "\xFF";
  CHECK(CodeOf(join) == Code::kInvalid);
  join.worker = std::string("a\0b", 3);
  CHECK(CodeOf(join) == Code::kInvalid);
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

// In Cap'n Proto many pointers can refer to one text, so a small header could stand for a large message.
TEST_CASE("a small header cannot grow into a large message", "[common][wire]") {
  RandomStream random(26);
  Join join;
  join.catalog.resize(1000);
  for (TensorSpec& tensor : join.catalog) tensor.name = "n";
  join.catalog[0].name = std::string(kTextBytesMax, 'n');
  std::vector<std::byte> bytes = Encoded(join);
  // Makes the name of each later tensor a pointer to the first name, so that the decoder meets the same words again.
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
    CHECK(decoded->As<Staged>()->nodes == staged.nodes);
    CHECK(decoded->As<Staged>()->ended == staged.ended);
  };
  Staged staged;
  staged.full = true;
  staged.ended = {3};
  for (std::uint32_t i = 0; i < kBlocks; ++i) {
    const BlockIndex block = 7 + i * kShards;
    staged.nodes.push_back({block, {0, 4}});
    if (i > kBlocks / 2) staged.nodes.push_back({block, {4, 5}});
  }
  ArrangeToFit(&staged.nodes);
  CHECK(staged.nodes.size() == kBlocks + kBlocks / 2 - 1);
  round_trip(staged, 1000);
  // These nodes make only short runs. ArrangeToFit keeps as many as fit; the others will be pushed again.
  staged.nodes.clear();
  for (std::uint32_t i = 0; i < 4 * kBlocks; ++i) staged.nodes.push_back({i * i, {i % 7, i % 7 + 1}});
  const std::vector<StagedNode> all = staged.nodes;
  ArrangeToFit(&staged.nodes);
  CHECK(staged.nodes.size() < all.size());
  CHECK(RunsOf(staged.nodes).size() <= kStagedRunsMax);
  round_trip(staged, TransportOptions().frame_bytes_max);
  std::vector<std::byte> bytes;
  staged.nodes = all;
  CHECK(EncodeHeader(staged, &bytes).code() == Code::kInvalid);
  staged.nodes.clear();
  for (std::uint32_t i = 0; i <= kStagedNodesMax; ++i) staged.nodes.push_back({i, {0, 1}});
  CHECK(EncodeHeader(staged, &bytes).code() == Code::kInvalid);
  staged.nodes.pop_back();
  round_trip(staged, 1000);
}

}  // namespace
}  // namespace capstan
