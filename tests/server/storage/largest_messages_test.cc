// The largest message or record of each kind that can be written can be read, with lists and texts of all lengths.
#include "common/wire/messages/limits.h"
#include "common/wire/transport.h"
#include "common/wire/wire_codec.h"
#include "server/storage/log_record_codec.h"
#include "tests/catch.h"
#include "tests/common/wire/random_messages.h"
#include "tests/server/storage/filled_values.h"
#include "tests/server/storage/storage_tools.h"

namespace capstan::server {
namespace {

// Returns sizes of lists and texts that just reach, or just exceed, the limits.
std::vector<Sizes> AllSizes(std::size_t bytes_max) {
  std::vector<Sizes> all;
  for (const std::size_t list : {std::size_t{kGroupsMax}, std::size_t{kGroupsMax} + 1, std::size_t{kSlotsMax},
                                 std::size_t{kSlotsMax} + 1, kListEntriesMax, kListEntriesMax + 1}) {
    all.push_back({list, 1, 1});
  }
  for (const std::size_t inner : {kDimensionsMax, kDimensionsMax + 1, kMetricsMax, kMetricsMax + 1}) {
    all.push_back({2, inner, 1});
    all.push_back({inner, inner, kMetricNameMax});
  }
  for (const std::size_t text : {kTextBytesMax, kTextBytesMax + 1, kProgramStateBytesMax, kProgramStateBytesMax + 1,
                                 kJobFileBytesMax, kJobFileBytesMax + 1}) {
    all.push_back({1, 1, text});
    all.push_back({bytes_max / text, 1, text});
  }
  return all;
}

// Calls visit with each alternative of a variant, filled up to these sizes.
template <class Variant, class Visit, std::size_t kKind = 0>
void ForEachKind(const Sizes& sizes, const Visit& visit) {
  if constexpr (kKind < std::variant_size_v<Variant>) {
    std::variant_alternative_t<kKind, Variant> value;
    FillTo(sizes, value);
    visit(kKind, std::move(value));
    ForEachKind<Variant, Visit, kKind + 1>(sizes, visit);
  }
}

TEST_CASE("every message that can be sent is received", "[common][wire][limits]") {
  std::size_t sent_count = 0;
  std::vector<std::byte> bytes;
  for (const Sizes& sizes : AllSizes(kFrameBytesMax)) {
    ForEachKind<MessageVariant>(sizes, [&](std::size_t kind, auto message) {
      Header sent = std::move(message);
      if (!EncodeHeader(sent, &bytes).ok()) return;
      ++sent_count;
      INFO("kind " << kind << ", lists of " << sizes.list << " and " << sizes.inner_list << ", texts of "
                   << sizes.text);
      REQUIRE(bytes.size() <= TransportOptions{}.frame_bytes_max);
      Result<Header> received = DecodeHeader(bytes);
      REQUIRE(received.status().message() == "");
      const bool cut = sizes.text > kTextBytesMax;  // text for users is cut
      REQUIRE((cut || testing::Same(sent, *received)));
    });
  }
  CHECK(sent_count > 200);
}

TEST_CASE("every record of the coordinator's log that can be written is read", "[server][storage][limits]") {
  std::size_t written = 0;
  for (const Sizes& sizes : AllSizes(2 * kJobFileBytesMax)) {
    ForEachKind<LogRecord>(sizes, [&](std::size_t kind, auto body) {
      const LogRecord record = std::move(body);
      const Result<std::string> text = EncodeLogRecord(record);
      if (!text.ok()) return;
      ++written;
      INFO("kind " << kind << ", lists of " << sizes.list << " and " << sizes.inner_list << ", texts of "
                   << sizes.text);
      const Result<LogRecord> back = DecodeLogRecord(*text);
      REQUIRE(back.status().message() == "");
      REQUIRE(testing::SameRecord(record, *back));
    });
  }
  CHECK(written > 50);
}

TEST_CASE("a part's header with too much in it is not written, and the most that is written is read",
          "[server][storage][limits]") {
  SnapshotHeader header = MakeImage({{1}, {2}}, 0, {.block_count = 1, .slot_count = kSlotsMax}).header;
  header.blocks[0].hashes = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
  header.blocks[0].last.assign(kSlotsMax, {UINT64_MAX});
  header.ended.assign(kSlotsMax, {UINT64_MAX});
  for (int step = 1; step <= 2; ++step) {  // as many as a shard retains
    for (const SlotReport& report : LargestReports()) header.reports.push_back({SequenceNumber{UINT64_MAX}, report});
  }
  Result<std::string> bytes = EncodeSnapshotHeader(header);
  REQUIRE(bytes.status().message() == "");
  Result<SnapshotHeader> back = DecodeSnapshotHeader(*bytes);
  REQUIRE(back.status().message() == "");
  CHECK(back->Digest() == header.Digest());

  header.reports.assign(65537, {SequenceNumber{1}, {}});
  CHECK(EncodeSnapshotHeader(header).status().code() == Code::kInvalid);
  header.reports.clear();
  header.slot_count = kSlotsMax + 1;
  header.ended.clear();
  CHECK(EncodeSnapshotHeader(header).status().code() == Code::kInvalid);
}

}  // namespace
}  // namespace capstan::server
