#include "server/coordinator/step_log.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>

#include "common/base/random.h"
#include "tests/catch.h"
#include "tests/file_size_limit.h"
#include "tests/temp_folder.h"

namespace capstan::server {
namespace {

TEST_CASE("a step's line holds every field, and numbers that read back as they were", "[server][step_log]") {
  StepRecord record;
  record.generation = Generation{2};
  record.step = Step{7};
  record.loss = 0.1;
  record.learning_rate = 1e-3;
  record.gradient_norm = 2.5;
  record.samples = 32;
  record.seconds = 0.25;
  CHECK(
      StepLine(record) ==
      R"({"step":7,"loss":0.1,"lr":0.001,"grad_norm":2.5,"samples":32,"seconds":0.25,"action":"apply","generation":2})");
}

TEST_CASE("validation is there when it was measured, and a skipped step says so", "[server][step_log]") {
  StepRecord record;
  record.action = StepAction::kSkip;
  record.validation_loss = 1.5;
  record.validation_accuracy = 0.75;
  const std::string line = StepLine(record);
  CHECK(line.find(R"("action":"skip")") != std::string::npos);
  CHECK(line.find(R"("validation_loss":1.5,"validation_accuracy":0.75)") != std::string::npos);
}

TEST_CASE("a line has the metrics there were, sorted, and null for one of no weight", "[server][step_log]") {
  StepRecord record;
  CHECK(StepLine(record).find("metrics") == std::string::npos);
  record.metrics = {{"top5", 0.99}, {"accuracy", 0.93}, {"none", std::nan("")}};
  CHECK(StepLine(record).find(R"("generation":0,"metrics":{"accuracy":0.93,"none":null,"top5":0.99}})") !=
        std::string::npos);
  CHECK(StepLine(record).find("left_out") == std::string::npos);
  record.metrics_left_out = 3;
  CHECK(StepLine(record).ends_with(R"("top5":0.99},"metrics_left_out":3})"));
}

TEST_CASE("what is no finite number is null, as JSON has no word for it", "[server][step_log]") {
  StepRecord record;
  record.loss = std::nan("");
  record.learning_rate = -std::numeric_limits<double>::infinity();
  record.gradient_norm = -0.0;
  record.seconds = 1e300;
  CHECK(
      StepLine(record).starts_with(R"({"step":0,"loss":null,"lr":null,"grad_norm":-0.0,"samples":0,"seconds":1e+300)"));
}

TEST_CASE("numbers of any size read back with the same bits", "[server][step_log]") {
  RandomStream random(5, 1);
  for (int i = 0; i < 10'000; ++i) {
    StepRecord record;
    record.loss =
        std::ldexp(static_cast<double>(1 + random.Below(1ull << 53)), static_cast<int>(random.Below(2000)) - 1070);
    const std::string line = StepLine(record);
    CHECK(std::strtod(line.c_str() + line.find("\"loss\":") + 7, nullptr) == record.loss);
  }
}

TEST_CASE("a step's line reads back, and another text does not", "[server][step_log]") {
  StepRecord record;
  record.generation = Generation{2};
  record.step = Step{7};
  record.loss = 0.1;
  record.learning_rate = std::nan("");
  record.gradient_norm = 2.5;
  record.samples = 32;
  record.seconds = 0.25;
  record.time = 1764230000.125;
  record.validation_loss = 1.5;
  const std::optional<StepRecord> back = ParseStepLine(StepLine(record));
  REQUIRE(back);
  CHECK(StepLine(*back) == StepLine(record));
  for (const char* line : {"", "{", "[7]", "{}", R"({"step":-1})", R"({"step":"7"})", R"({"step":1.5})"}) {
    CAPTURE(line);
    CHECK_FALSE(ParseStepLine(line));
  }
  const std::optional<StepRecord> odd = ParseStepLine(R"({"step":3,"loss":"x","samples":-4,"time":[]})");
  REQUIRE(odd);
  CHECK(std::isnan(odd->loss));
  CHECK(odd->samples == 0);
  CHECK(odd->time == 0);
}

struct LogFile {
  std::string Content() const {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void Write(const std::string& text) const { folder.Write("metrics.jsonl", text); }
  testing::TempFolder folder;
  std::string path = folder.path("metrics.jsonl");
};

std::vector<StepRecord> Steps(std::uint64_t first, std::uint64_t count) {
  std::vector<StepRecord> records(count);
  for (std::uint64_t i = 0; i < count; ++i) records[i].step = Step{first + i};
  return records;
}

std::string Lines(const std::vector<StepRecord>& records) {
  std::string lines;
  for (const StepRecord& record : records) lines += StepLine(record) + "\n";
  return lines;
}

// With another error than a full disk. server_power_cut_test has the full disk.
TEST_CASE("a write that fails within a line leaves whole lines only, and the log goes on behind them",
          "[server][step_log]") {
  const LogFile file;
  Result<StepLog> log = StepLog::Open(file.path);
  REQUIRE(log.ok());
  REQUIRE(log->Append(Steps(0, 2)).ok());
  const std::size_t line = StepLine(StepRecord{}).size() + 1;
  Status status;
  {
    const testing::FileSizeLimit limit(line * 4 + line / 2);  // half of the fifth fits
    status = log->Append(Steps(2, 4));
  }
  CHECK(status.code() == Code::kUnreachable);
  CHECK(file.Content() == Lines(Steps(0, 4)));
  CHECK(log->Append(Steps(4, 1)).ok());
  CHECK(file.Content() == Lines(Steps(0, 5)));
}

TEST_CASE("a log that is opened again goes on behind its last whole line", "[server][step_log]") {
  const LogFile file;
  const std::string long_half = "{\"step\": " + std::string(100'000, '1');
  for (const std::string& torn : {std::string(), std::string("{\"step\": 2, \"lo"), long_half}) {
    file.Write(Lines(Steps(0, 2)) + torn);
    Result<StepLog> log = StepLog::Open(file.path);
    REQUIRE(log.ok());
    CHECK(log->Append(Steps(2, 1)).ok());
    CHECK(file.Content() == Lines(Steps(0, 3)));
  }
  file.Write(long_half);  // never a whole line
  Result<StepLog> log = StepLog::Open(file.path);
  REQUIRE(log.ok());
  CHECK(file.Content().empty());
}

}  // namespace
}  // namespace capstan::server
