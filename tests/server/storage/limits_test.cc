// No reader's limit is below a writer's: the largest message or record of each kind that can be written can be read.
#include "common/wire/messages/limits.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/data_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job_config.h"
#include "common/config/toml_document.h"
#include "common/wire/transport.h"
#include "common/wire/wire_codec.h"
#include "server/storage/log_record_codec.h"
#include "server/storage/push_record_codec.h"
#include "tests/catch.h"
#include "tests/common/wire/random_messages.h"
#include "tests/server/storage/storage_tools.h"

namespace capstan::server {
namespace {

struct Sizes {
  std::size_t list, inner_list, text;
  // Returns the sizes inside an entry of a list.
  Sizes Inner() const { return {inner_list, inner_list, text}; }
};

template <class T>
void FillTo(const Sizes& sizes, T& value);

struct FillerTo {
  const Sizes& sizes;
  void operator()(auto& member, const auto&...) { FillTo(sizes, member); }
};

void FillTo(const Sizes& sizes, std::string& text) { text.assign(sizes.text, 'x'); }
template <class T>
void FillTo(const Sizes& sizes, std::vector<T>& list) {
  list.resize(sizes.list);
  for (T& element : list) FillTo(sizes.Inner(), element);
}
template <class T>
void FillTo(const Sizes& sizes, std::optional<T>& value) {
  FillTo(sizes, value.emplace());
}
template <class Tag>
void FillTo(const Sizes& sizes, Number<Tag>& number) {
  FillTo(sizes, number.value);
}
template <class T>
void FillTo(const Sizes& sizes, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    value = true;
  } else if constexpr (std::is_enum_v<T>) {
    value = LastOf(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    value = std::numeric_limits<T>::lowest();
  } else if constexpr (std::is_arithmetic_v<T>) {
    value = std::numeric_limits<T>::max();
  } else {
    FillerTo filler{sizes};
    Fields(filler, value);
  }
}

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

// Returns reports of as many slots as a job may have, all on one shard, each with as many metrics as it may have.
std::vector<SlotReport> LargestReports() {
  std::vector<SlotReport> reports(kSlotsMax);
  for (SlotIndex slot = 0; slot < kSlotsMax; ++slot) {
    reports[slot].slot = slot;
    for (std::size_t i = 0; i < kMetricsMax; ++i) {
      reports[slot].metrics.push_back({std::string(kMetricNameMax, 'm'), 1e300, 1e300});
    }
  }
  return reports;
}

TEST_CASE("what a worker or a reader says to a shard fits the frames that a shard takes", "[common][wire][limits]") {
  std::vector<std::byte> bytes;
  const auto fits = [&](const Header& header) {
    CHECK(EncodeHeader(header, &bytes).message() == "");
    CHECK(bytes.size() <= kFrameToShardBytesMax);
  };
  Push push;
  push.hyper.resize(kGroupsMax);
  fits(push);
  EndSlot end;
  end.report = LargestReports().front();
  end.program_state = std::string(kProgramStateBytesMax, 's');
  fits(end);
  CoverageQuery query;  // of nodes that make no runs
  for (std::uint32_t i = 0; i < kStagedRunsMax; ++i) query.nodes.push_back({i * i, {i % 7, i % 7 + 1}});
  fits(query);
  Pull pull;
  pull.blocks.resize(kListEntriesMax);
  fits(pull);
  CHECK(kBlockElements * sizeof(float) <= kFrameToShardBytesMax);
}

TEST_CASE("what a shard says of a step is sent for as many slots, metrics and segments as may be",
          "[common][wire][limits]") {
  std::vector<std::byte> bytes;
  Hello hello;  // a Hello carries a Prepared, and more
  hello.endpoint = hello.metrics = std::string(256, 'h');
  Prepared& prepared = hello.prepared.emplace();
  prepared.report.slots = LargestReports();
  for (auto* squares :
       {&prepared.report.segment_squares, &prepared.report.weight_squares, &prepared.report.direction_squares}) {
    squares->resize(kListEntriesMax);
  }
  prepared.report.block_samples.resize(kListEntriesMax);
  prepared.report.program_state = std::string(kProgramStateBytesMax, 's');
  hello.last_commit.emplace().next.program_state = prepared.report.program_state;
  CHECK(EncodeHeader(hello, &bytes).message() == "");
  CHECK(bytes.size() <= TransportOptions{}.frame_bytes_max);
  Progress progress;
  progress.clocks.resize(kSlotsMax);
  for (SlotReport& report : LargestReports()) progress.reports.push_back({SequenceNumber{1}, std::move(report)});
  CHECK(EncodeHeader(progress, &bytes).message() == "");
  CHECK(bytes.size() <= TransportOptions{}.frame_bytes_max);
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

TEST_CASE("every record of a shard's log that can be admitted is read", "[server][storage][limits]") {
  PushRecord push{UINT32_MAX, kSlotsMax - 1, {UINT64_MAX}, kSamplesPerPushMax, 1e38F, 1e38F, 0, {}, {}};
  push.hyper.resize(kGroupsMax);
  FillTo({1, 1, 1}, push.hyper.front());
  const BufferRef payload = NewBuffer(kFrameBytesMax);
  push.payload = WholeBuffer(payload);
  push.payload_hash = Hash64(push.payload.bytes());
  std::string bytes = EncodePushRecord(7, push);
  bytes.append(reinterpret_cast<const char*>(push.payload.data), push.payload.size);
  const Result<PushLogRecord> back = DecodePushRecord(7, bytes);
  REQUIRE(back.status().message() == "");
  CHECK(std::get<PushRecord>(*back).hyper.size() == kGroupsMax);
  CHECK(std::get<PushRecord>(*back).payload.size == kFrameBytesMax);
  const EndRecord end{SequenceNumber{UINT64_MAX}, LargestReports().back()};
  const Result<PushLogRecord> ended = DecodePushRecord(7, EncodePushRecord(7, end));
  REQUIRE(ended.status().message() == "");
  CHECK(std::get<EndRecord>(*ended).report == end.report);
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

TEST_CASE("a job file that is read can be printed, sent and read again; a longer one is refused",
          "[common][config][limits]") {
  EditableJobConfig config;
  config.job.steps = config.job.slots = config.job.global_batch = 1;
  config.cluster.servers = config.cluster.workers = config.cluster.min_workers = 1;
  config.optimizer.lr = 0.5;
  config.data.kind = DataKind::kCsv;
  config.data.path = "PATH";
  const std::string text = PrintJobConfig(config);
  const std::size_t at = text.find("\"PATH\"");
  REQUIRE(at != std::string::npos);
  for (const std::size_t quotes : {std::size_t{1000}, kTomlBytesMax / 2, kTomlBytesMax * 3 / 4}) {
    CAPTURE(quotes);
    const Result<JobConfig> read =
        ParseJobConfig(std::string(text).replace(at, 6, "'" + std::string(quotes, '"') + "'"), "job.toml");
    if (!read.ok()) {  // printed, a quote takes two bytes
      CHECK(2 * quotes >= kTomlBytesMax);
      INFO(read.status().message());
      CHECK(read.status().message().find("at most 1048576 are allowed") != std::string::npos);
      continue;
    }
    View view;
    view.job_file = PrintJobConfig(*read);
    std::vector<std::byte> bytes;
    REQUIRE(EncodeHeader(view, &bytes).message() == "");
    const Result<JobConfig> back = ParseJobConfig(view.job_file, "job.toml");
    REQUIRE(back.status().message() == "");
    CHECK(PrintJobConfig(*back) == view.job_file);
  }
}

}  // namespace
}  // namespace capstan::server
