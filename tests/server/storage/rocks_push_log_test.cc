// A shard's log on disk: what remains when its last bytes are torn off, when bytes in its middle flip, and when its
// files are gone.
#include <algorithm>
#include <map>

#include "server/storage/push_record_codec.h"
#include "server/storage/rocks_push_log.h"
#include "server/storage/sealed_text.h"
#include "tests/catch.h"
#include "tests/server/storage/push_log_tools.h"

namespace capstan::server {
namespace {

namespace files = std::filesystem;

constexpr std::uint64_t kBatches = 12, kBatch = 3;

// A log to which kBatches batches were appended, and which was then closed.
class WrittenLog {
 public:
  explicit WrittenLog(std::uint64_t segment_bytes) : segment_bytes_(segment_bytes) {
    auto log = Open();
    REQUIRE(log->Begin(kLogTimeline).ok());
    for (std::uint64_t i = 0; i < kBatches; ++i) {
      REQUIRE(log->Append(kLogTimeline.id, 1 + i * kBatch, MakeRecords(i, kBatch)).message() == "");
    }
  }
  std::unique_ptr<PushLog> Open() const {
    auto log = RocksPushLog::Open(folder_.path(), segment_bytes_);
    REQUIRE(log.status().message() == "");
    return std::move(log).value();
  }
  // Returns the log's files with this extension, the largest last.
  std::vector<std::string> Files(const std::string& extension) const {
    std::multimap<std::uintmax_t, std::string> by_size;
    for (const auto& entry : files::directory_iterator(folder_.path() + "/pushes")) {
      if (entry.path().extension() == extension) by_size.emplace(entry.file_size(), entry.path());
    }
    std::vector<std::string> paths;
    for (const auto& [size, path] : by_size) paths.push_back(path);
    return paths;
  }

 private:
  TempFolder folder_;
  std::uint64_t segment_bytes_;
};

TEST_CASE("whatever is torn off the end of a log, the appends in front of it are whole", "[server][storage][log]") {
  std::size_t fewest = UINT64_MAX, most = 0;
  for (std::uintmax_t torn = 1; torn < 900; torn += 41) {
    const WrittenLog written(std::uint64_t{1} << 20);
    const std::string path = written.Files(".log").back();
    files::resize_file(path, files::file_size(path) - torn);
    const Result<std::vector<PushLogRecord>> read = ReadAll(written.Open().get(), 1);
    INFO(torn << " bytes torn off: " << read.status().ToString());
    REQUIRE(read.ok());
    CHECK(read->size() % kBatch == 0);
    for (std::size_t i = 0; i < read->size(); ++i) {
      REQUIRE(SameRecord((*read)[i], MakeRecord(i / kBatch, i % kBatch)));
    }
    fewest = std::min(fewest, read->size());
    most = std::max(most, read->size());
  }
  CHECK(fewest < most);
  CHECK(most == (kBatches - 1) * kBatch);
}

TEST_CASE("a flipped bit in the middle of a log is never passed over", "[server][storage][log]") {
  int refused = 0;
  for (std::size_t at = 100; at < 1000; at += 53) {
    const WrittenLog written(std::uint64_t{1} << 20);
    const std::string path = written.Files(".log").back();
    std::string bytes = ReadWholeFile(path);
    REQUIRE(bytes.size() > 1500);
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    WriteWholeFile(path, bytes);
    const auto log = written.Open();
    const Result<std::vector<PushLogRecord>> read = ReadAll(log.get(), 1);
    INFO("byte " << at << ": " << read.status().ToString());
    CHECK(read.status().code() == Code::kCorrupt);
    refused += read.ok() ? 0 : 1;
    CHECK(log->Append(kLogTimeline.id, 1 + kBatches * kBatch, MakeRecords(9, 1)).code() == Code::kCorrupt);
    REQUIRE(log->Begin({{5}, 2}).message() == "");  // a new timeline begins where the damage was
    REQUIRE(log->Append({5}, 1, MakeRecords(9, 1)).message() == "");
    CHECK(ReadAll(log.get(), 1, {{5}, 2}).value().size() == 1);
  }
  CHECK(refused > 10);
}

TEST_CASE("a damaged table of a log, or one that is gone, is noticed", "[server][storage][log]") {
  const bool gone = GENERATE(false, true);
  const WrittenLog written(300);
  (void)written.Open();  // what was written ahead goes into tables
  const std::vector<std::string> tables = written.Files(".sst");
  REQUIRE(!tables.empty());
  const std::string& table = tables.back();
  if (gone) {
    files::remove(table);
  } else {
    std::string bytes = ReadWholeFile(table);
    bytes[bytes.size() / 4] = static_cast<char>(bytes[bytes.size() / 4] ^ 1);
    WriteWholeFile(table, bytes);
  }
  const auto log = written.Open();
  CHECK(ReadAll(log.get(), 1).status().code() == Code::kCorrupt);
  REQUIRE(log->Begin({{5}, 2}).message() == "");
  CHECK(ReadAll(log.get(), 1, {{5}, 2}).value().empty());
}

TEST_CASE("not a byte of a record is believed that is not as it was written", "[server][storage][log]") {
  RandomStream random(41);
  for (std::uint64_t index = 0; index < 300; ++index) {
    const PushLogRecord record = MakeRecord(3, index);
    std::string bytes = EncodePushRecord(index, record);
    const auto* push = std::get_if<PushRecord>(&record);
    if (push != nullptr && !push->payload.empty()) {
      bytes.append(reinterpret_cast<const char*>(push->payload.data), push->payload.size);
    }
    REQUIRE(SameRecord(DecodePushRecord(index, bytes).value(), record));
    CHECK(DecodePushRecord(index + 1, bytes).status().code() == Code::kCorrupt);  // it is in another record's place
    std::string spoilt = bytes;
    spoilt[random.Below(spoilt.size())] ^= static_cast<char>(1U << random.Below(8));
    CHECK(DecodePushRecord(index, spoilt).status().code() == Code::kCorrupt);
    CHECK(DecodePushRecord(index, bytes.substr(0, random.Below(bytes.size()))).status().code() == Code::kCorrupt);
  }
}

TEST_CASE("a record without hyper-parameters is written as ever; one with them has them last",
          "[server][storage][log]") {
  PushRecord push;
  push.block = 3;
  push.learning_rate = 1.0F;
  CHECK(EncodePushRecord(9, push).find(R"({"push":[3,0,0,0,1065353216,1065353216,0]})") != std::string::npos);
  push.hyper.resize(1);
  CHECK(EncodePushRecord(9, push).find("1065353216,0,[[0,0,0,0,0,0,false,0,0,0,0,0,false,false]]]}") !=
        std::string::npos);
}

TEST_CASE("an end without metrics is written as ever; one with them has them last", "[server][storage][log]") {
  EndRecord end{SequenceNumber{7}, {}};
  end.report.slot = 2;
  CHECK(EncodePushRecord(9, end).find(R"({"end":[7,2,0,0,0,0,0,0]})") != std::string::npos);
  CHECK(DecodePushRecord(9, EncodePushRecord(9, end)).ok());
  end.report.metrics = {{"accuracy", 1.0, 0.0}};
  const std::string bytes = EncodePushRecord(9, end);
  CHECK(bytes.find(R"([7,2,0,0,0,0,0,0,[["accuracy",4607182418800017408,0]]])") != std::string::npos);
  CHECK(SameRecord(DecodePushRecord(9, bytes).value(), end));
}

TEST_CASE("a log of a newer format is refused by name, and is not taken for a damaged one", "[server][storage][log]") {
  CHECK(EncodeLogTimeline({TimelineId{4}, 2}) == Seal(0, "[1,4,2]"));
  const LogTimeline timeline = DecodeLogTimeline(EncodeLogTimeline({TimelineId{4}, 2})).value();
  CHECK(timeline.id == TimelineId{4});
  CHECK(timeline.shard_count == 2);
  const Status newer = DecodeLogTimeline(Seal(0, "[2,4,2,9]")).status();
  CHECK(newer.code() == Code::kUnsupported);
  CHECK_THAT(newer.message(), Catch::Contains("format 2"));
  for (const char* text : {"[0,4,2]", "[1,4]", "[4,2]", "[1,4,2,0]", "{}", ""}) {
    const Code code = DecodeLogTimeline(Seal(0, text)).status().code();
    CHECK(code == (std::string(text) == "[4,2]" ? Code::kUnsupported : Code::kCorrupt));
  }
}

TEST_CASE("what is trimmed gives its room back", "[server][storage][log]") {
  const WrittenLog written(300);
  const auto log = written.Open();
  const auto bytes = [&] {
    std::uintmax_t sum = 0;
    for (const char* kind : {".sst", ".log"}) {
      for (const std::string& path : written.Files(kind)) sum += files::file_size(path);
    }
    return sum;
  };
  const std::uintmax_t before = bytes();
  REQUIRE(log->Trim(kBatches * kBatch).ok());
  CHECK(bytes() < before / 2);
  CHECK(ReadAll(log.get(), kBatches * kBatch).value().size() == 1);
}

}  // namespace
}  // namespace capstan::server
