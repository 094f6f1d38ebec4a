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
#include "tests/server/storage/filled_values.h"
#include "tests/server/storage/storage_tools.h"

namespace capstan::server {
namespace {

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
