#include "common/wire/messages/limits.h"
#include "server/storage/log_record_codec.h"
#include "server/storage/sealed_text.h"
#include "server/storage/shard_identity_codec.h"
#include "tests/catch.h"
#include "tests/server/storage/storage_tools.h"
#include "tests/tier.h"

namespace capstan::server {
namespace {

using testing::RandomSnapshotHeader;

TEST_CASE("a snapshot's header comes back as it was, floats by their bits", "[server][storage]") {
  RandomStream random(1);
  for (int i = 0; i < 200; ++i) {
    SnapshotHeader header = RandomSnapshotHeader(random);
    Result<SnapshotHeader> back = DecodeSnapshotHeader(EncodeSnapshotHeader(header).value());
    REQUIRE(back.status().message() == "");
    REQUIRE(testing::Same(header, back.value()));
    REQUIRE(back->Digest() == header.Digest());
  }
}

TEST_CASE("a header that was changed or cut is refused, or is still the same", "[server][storage]") {
  RandomStream random(testing::TestSeed());
  const int tries = testing::TriesOfTier(3000);
  int refused = 0;
  for (int i = 0; i < tries; ++i) {
    SnapshotHeader header = RandomSnapshotHeader(random);
    std::string bytes = EncodeSnapshotHeader(header).value();
    if (random.Below(4) == 0) {
      bytes.resize(random.Below(bytes.size()));
    } else {
      for (std::uint64_t flips = 1 + random.Below(3); flips > 0; --flips) {
        bytes[random.Below(bytes.size())] ^= static_cast<char>(1 << random.Below(8));
      }
    }
    Result<SnapshotHeader> back = DecodeSnapshotHeader(bytes);
    if (back.ok()) {
      REQUIRE(testing::Same(header, back.value()));
    } else {
      ++refused;
    }
  }
  CHECK(refused > tries / 30 * 29);
}

// A hash does not protect from a writer that computes the hash of wrong contents.
TEST_CASE("a header whose hash was made to match is believed only within bounds", "[server][storage]") {
  RandomStream random(testing::TestSeed());
  const int tries = testing::TriesOfTier(3000);
  for (int i = 0; i < tries; ++i) {
    const std::string bytes = EncodeSnapshotHeader(RandomSnapshotHeader(random)).value();
    std::string text = bytes.substr(kSealBytes);
    for (std::uint64_t flips = 1 + random.Below(3); flips > 0; --flips) {
      text[random.Below(text.size())] ^= static_cast<char>(1 << random.Below(8));
    }
    const Result<SnapshotHeader> back = DecodeSnapshotHeader(Seal(0, text));
    if (!back.ok()) continue;
    REQUIRE(back->array_count - 1 < kBlockArraysMax);
    REQUIRE(back->part < back->part_count);
    for (std::size_t b = 1; b < back->blocks.size(); ++b) {
      REQUIRE(back->blocks[b - 1].block < back->blocks[b].block);
    }
  }
}

Status DecodeChanged(const std::string& from, const std::string& to) {
  std::string text = EncodeSnapshotHeader(MakeImage({{1}, {2}}, 0).header).value().substr(kSealBytes);
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return DecodeSnapshotHeader(Seal(0, text.replace(at, from.size(), to))).status();
}

TEST_CASE("a header of a newer format is not supported, and one out of bounds is corrupt", "[server][storage]") {
  CHECK(DecodeChanged("\"part\":0", "\"part\":1").ok());
  CHECK(DecodeChanged("\"format\":1", "\"format\":2").code() == Code::kUnsupported);
  CHECK(DecodeChanged("\"format\":1", "\"format\":0").code() == Code::kCorrupt);
  CHECK(DecodeChanged("\"format\":1", "\"format\":-1").code() == Code::kCorrupt);
  CHECK(DecodeChanged("\"array_count\":3", "\"array_count\":0").code() == Code::kCorrupt);
  CHECK(DecodeChanged("\"array_count\":3", "\"array_count\":4").code() == Code::kCorrupt);
  CHECK(DecodeChanged("\"part\":0", "\"part\":2").code() == Code::kCorrupt);
  CHECK(DecodeChanged("\"slot_count\":4", "\"slot_count\":3").code() == Code::kCorrupt);
  CHECK(DecodeChanged("\"slot_count\":4", "\"slot_count\":4097").code() == Code::kCorrupt);
  CHECK(DecodeChanged("[3,300,", "[0,300,").code() == Code::kCorrupt);
  CHECK(DecodeChanged("[3,300,", "[3,-300,").code() == Code::kCorrupt);
  CHECK(DecodeChanged("[12,300,", "[" + std::to_string(kFetchQuestion - 1) + ",300,").ok());
  CHECK(DecodeChanged("[12,300,", "[" + std::to_string(kFetchQuestion) + ",300,").code() == Code::kCorrupt);
  CHECK(DecodeSnapshotHeader("").status().code() == Code::kCorrupt);
  CHECK(DecodeSnapshotHeader(Seal(0, std::string(100000, '['))).status().code() == Code::kCorrupt);
}

TEST_CASE("a shard's life comes back as it was, and not at all when a bit of it is flipped", "[server][storage]") {
  RandomStream random(4);
  for (int i = 0; i < 200; ++i) {
    ShardIdentity identity;
    testing::FillAsStored(identity, random);
    std::string bytes = EncodeShardIdentity(identity);
    Result<ShardIdentity> back = DecodeShardIdentity(bytes);
    REQUIRE(back.ok());
    REQUIRE(back.value() == identity);
    bytes[random.Below(bytes.size())] ^= static_cast<char>(1 << random.Below(8));
    REQUIRE(DecodeShardIdentity(bytes).status().code() == Code::kCorrupt);
  }
  CHECK(DecodeShardIdentity(Seal(0, R"({"format":2})")).status().code() == Code::kUnsupported);
  CHECK(DecodeShardIdentity(Seal(0, R"({"format":1})")).status().code() == Code::kCorrupt);
}

TEST_CASE("every kind of record comes back as it was, floats by their bits", "[server][storage]") {
  RandomStream random(5);
  for (int i = 0; i < 400; ++i) {
    LogRecord record = testing::RandomRecord(i % std::variant_size_v<LogRecord>, random);
    const Result<std::string> json = EncodeLogRecord(record);
    REQUIRE(json.ok());
    REQUIRE(json->find('\n') == std::string::npos);
    const Result<LogRecord> back = DecodeLogRecord(json.value());
    REQUIRE(back.status().message() == "");
    REQUIRE(testing::SameRecord(record, back.value()));
  }
}

TEST_CASE("a record that was changed is refused or read, but never harms", "[server][storage]") {
  RandomStream random(6);
  int refused = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string json =
        EncodeLogRecord(testing::RandomRecord(random.Below(std::variant_size_v<LogRecord>), random)).value();
    json[random.Below(json.size())] ^= static_cast<char>(1 << random.Below(8));
    if (!DecodeLogRecord(json).ok()) ++refused;
  }
  CHECK(refused > 1000);
  CHECK(DecodeLogRecord(R"({"record":"tax"})").status().code() == Code::kCorrupt);
  CHECK(IsObsoleteLogRecord(R"({"record":"session","session":256})"));
  CHECK_FALSE(IsObsoleteLogRecord(R"({"record":"term","term":1})"));
  CHECK_FALSE(IsObsoleteLogRecord("{"));
  CHECK(DecodeLogRecord(R"({"record":"term"})").status().code() == Code::kCorrupt);
  CHECK(DecodeLogRecord(R"({"record":"term","term":18446744073709551616})").status().code() == Code::kCorrupt);
  CHECK(DecodeLogRecord(R"({"record":"term","term":18446744073709551615})").status().code() == Code::kCorrupt);
  CHECK(DecodeLogRecord(R"({"record":"term","term":4611686018427387905})").status().code() == Code::kCorrupt);
  CHECK(DecodeLogRecord(R"({"record":"term","term":4611686018427387904})").ok());
}

TEST_CASE("a program's state is written down as any bytes; without one a record and its digest are as ever",
          "[server][storage]") {
  ManifestRecord manifest;
  const std::string without = EncodeLogRecord(manifest).value();
  CHECK(without.find("program_state") == std::string::npos);
  manifest.parameters.program_state = std::string("\0\xFF\n{", 4);
  const std::string with = EncodeLogRecord(manifest).value();
  CHECK(with.find(R"("program_state":"00ff0a7b")") != std::string::npos);
  CHECK(std::get<ManifestRecord>(DecodeLogRecord(with).value()).parameters == manifest.parameters);
  const auto changed = [&](const std::string& hex) {
    std::string text = with;
    return DecodeLogRecord(text.replace(text.find("00ff0a7b"), 8, hex)).status().code();
  };
  CHECK(changed(std::string(2 * kProgramStateBytesMax, '0')) == Code::kOk);
  CHECK(changed(std::string(2 * kProgramStateBytesMax + 2, '0')) == Code::kCorrupt);
  CHECK(changed("00f") == Code::kCorrupt);
  CHECK(changed("0g") == Code::kCorrupt);
  SnapshotHeader header;
  CHECK(header.Digest() == 0xD22A922DEF7C61FE);  // the same as before program states existed
  header.parameters.program_state = "a";
  const std::uint64_t digest = header.Digest();
  header.parameters.program_state = "b";
  CHECK(header.Digest() != digest);
}

TEST_CASE("a text that is not UTF-8 is not written down", "[server][storage]") {
  CHECK(EncodeLogRecord(JobRecord{{1, 2}, "name = \"\xFF\""}).status().code() == Code::kInvalid);
}

}  // namespace
}  // namespace capstan::server
