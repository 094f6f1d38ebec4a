#include "server/coordinator/tensorboard_log.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "server/coordinator/event_record.h"
#include "tests/catch.h"
#include "tests/file_size_limit.h"
#include "tests/temp_folder.h"

namespace capstan::server {
namespace {

namespace fs = std::filesystem;

constexpr double kNow = 1700000000;

std::vector<std::string> FilesIn(const std::string& folder) {
  std::vector<std::string> files;
  if (!fs::exists(folder)) return files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

std::string Content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Counts the times that `part` occurs in all files of the folder.
std::size_t CountIn(const std::string& folder, const std::string& part) {
  std::size_t count = 0;
  for (const std::string& file : FilesIn(folder)) {
    const std::string content = Content(file);
    for (std::size_t at = content.find(part); at != content.npos; at = content.find(part, at + 1)) ++count;
  }
  return count;
}

StepRecord StepOf(std::uint64_t step) {
  StepRecord record;
  record.step = Step{step};
  record.loss = 0.5;
  record.learning_rate = 0.25;
  record.gradient_norm = 2;
  record.samples = 8;
  record.seconds = 0.5;
  return record;
}

// Appends the steps from `begin` to `end` - 1, one by one.
void AppendSteps(TensorBoardLog* log, std::uint64_t begin, std::uint64_t end) {
  for (std::uint64_t step = begin; step < end; ++step) REQUIRE(log->Append({StepOf(step)}, kNow).ok());
}

// Returns the points of StepOf(begin) to StepOf(end - 1).
std::string PointsOf(std::uint64_t begin, std::uint64_t end) {
  std::string points;
  for (std::uint64_t step = begin; step < end; ++step) {
    points += RecordOf(ScalarsEvent(kNow, step,
                                    {{"train/loss", 0.5},
                                     {"train/learning_rate", 0.25},
                                     {"train/gradient_norm", 2},
                                     {"train/samples_per_second", 16}}));
  }
  return points;
}

std::string HeadOf(std::uint64_t step) { return RecordOf(VersionEvent(kNow)) + RecordOf(StartEvent(kNow, step)); }

TEST_CASE("a step's figures are points of curves, and a file begins with its first step", "[server][tensorboard]") {
  const testing::TempFolder folder;
  TensorBoardLog log(folder.path("tensorboard"), 100);
  CHECK(FilesIn(folder.path("tensorboard")).empty());  // nothing before the first step
  StepRecord record = StepOf(4);
  record.loss_scale = 1024;
  record.validation_loss = 0.75;
  record.validation_accuracy = 0.875;
  record.metrics = {{"accuracy", 0.5}};
  REQUIRE(log.Append({record}, kNow).ok());
  const std::vector<std::string> files = FilesIn(folder.path("tensorboard"));
  REQUIRE(files.size() == 1);
  CHECK(fs::path(files[0]).filename() == "events.out.tfevents.1700000000.capstan");
  CHECK(fs::status(folder.path("tensorboard")).permissions() == fs::perms::owner_all);  // as all of a run directory
  CHECK(Content(files[0]) == HeadOf(4) + RecordOf(ScalarsEvent(kNow, 4,
                                                               {{"train/loss", 0.5},
                                                                {"train/learning_rate", 0.25},
                                                                {"train/gradient_norm", 2},
                                                                {"train/samples_per_second", 16},
                                                                {"train/loss_scale", 1024},
                                                                {"metrics/accuracy", 0.5},
                                                                {"validation/loss", 0.75},
                                                                {"validation/accuracy", 0.875}})));
}

TEST_CASE("steps that are done again replace the points that were there", "[server][tensorboard]") {
  const testing::TempFolder folder;
  TensorBoardLog log(folder.path(), 100);
  AppendSteps(&log, 0, 5);
  AppendSteps(&log, 3, 6);
  CHECK(CountIn(folder.path(), RecordOf(StartEvent(kNow, 3))) == 1);
  CHECK(CountIn(folder.path(), "train/loss") == 5 + 3);
  const std::string content = Content(FilesIn(folder.path())[0]);
  CHECK(content == HeadOf(0) + PointsOf(0, 5) + RecordOf(StartEvent(kNow, 3)) + PointsOf(3, 6));
}

TEST_CASE("each start writes a file that sorts behind those before it, whatever the clock says",
          "[server][tensorboard]") {
  const testing::TempFolder folder;
  folder.Write("events.out.tfevents.1800000000.capstan", "of a start when the clock was wrong");
  folder.Write("events.out.tfevents.9999999999.other", "of another program");
  for (const std::uint64_t step : {0, 1}) {
    TensorBoardLog log(folder.path(), 100);
    AppendSteps(&log, step, step + 1);
  }
  CHECK(fs::exists(folder.path("events.out.tfevents.1800000001.capstan")));
  CHECK(fs::exists(folder.path("events.out.tfevents.1800000002.capstan")));
}

TEST_CASE("a job of many steps has a bounded number of points, the last step among them", "[server][tensorboard]") {
  const testing::TempFolder folder;
  constexpr std::uint64_t kSteps = 3 * kPointsMax + 1;  // each fourth step has a point
  TensorBoardLog log(folder.path(), kSteps);
  std::vector<StepRecord> records;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    records.push_back(StepOf(step));
    records.back().validation_loss = 1;
  }
  REQUIRE(log.Append(records, kNow).ok());
  const std::size_t points = kSteps / 4 + 1;
  CHECK(CountIn(folder.path(), "train/loss") == points);
  CHECK(CountIn(folder.path(), "validation/loss") == points);
  CHECK(points <= kPointsMax);
  CHECK(fs::file_size(FilesIn(folder.path())[0]) < 230 * points + 100);  // as the documents say
}

TEST_CASE("the last step has a point, although none is due", "[server][tensorboard]") {
  const testing::TempFolder folder;
  TensorBoardLog log(folder.path(), 3 * kPointsMax + 1);
  AppendSteps(&log, 0, 1);
  AppendSteps(&log, 3 * kPointsMax - 1, 3 * kPointsMax + 1);
  CHECK(CountIn(folder.path(), "train/loss") == 3);
}

TEST_CASE("the folder has a bounded number of files, of which the oldest go", "[server][tensorboard]") {
  const testing::TempFolder folder;
  for (std::uint64_t start = 0; start < kEventFilesMax + 3; ++start) {
    TensorBoardLog log(folder.path(), 1000);
    AppendSteps(&log, start, start + 1);
  }
  const std::vector<std::string> files = FilesIn(folder.path());
  CHECK(files.size() == kEventFilesMax);
  CHECK(fs::path(files[0]).filename() == "events.out.tfevents.1700000003.capstan");
}

TEST_CASE("a write that fails leaves whole records, and later points follow them", "[server][tensorboard]") {
  const testing::TempFolder folder;
  TensorBoardLog log(folder.path(), 100);
  AppendSteps(&log, 0, 1);
  const std::string file = FilesIn(folder.path())[0], before = Content(file);
  {
    const testing::FileSizeLimit limit(before.size() + 20);
    CHECK(log.Append({StepOf(1)}, kNow).code() == Code::kUnreachable);
  }
  CHECK(Content(file) == before);
  AppendSteps(&log, 2, 3);
  CHECK(Content(file).starts_with(before));
  CHECK(CountIn(folder.path(), "train/loss") == 2);
}

TEST_CASE("a start that cannot write its first points leaves no empty file, and tries again", "[server][tensorboard]") {
  const testing::TempFolder folder;
  TensorBoardLog log(folder.path(), 100);
  {
    const testing::FileSizeLimit limit(0);
    CHECK_FALSE(log.Append({StepOf(0)}, kNow).ok());
  }
  CHECK(FilesIn(folder.path()).empty());
  AppendSteps(&log, 1, 2);
  REQUIRE(FilesIn(folder.path()).size() == 1);
  CHECK(Content(FilesIn(folder.path())[0]).starts_with(HeadOf(1)));
}

TEST_CASE("a folder that cannot be made is named", "[server][tensorboard]") {
  const testing::TempFolder folder;
  TensorBoardLog log(folder.Write("in-the-way", "") + "/tensorboard", 100);
  CHECK(log.Append({StepOf(0)}, kNow).message().find("in-the-way") != std::string::npos);
}

}  // namespace
}  // namespace capstan::server
