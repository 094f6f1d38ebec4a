// The history of a job from the files of its run directory.
#include "server/coordinator/history_files.h"

#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <fstream>

#include "server/coordinator/history.h"
#include "server/coordinator/step_log.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"
#include "tests/tier.h"

namespace capstan::server {
namespace {

using nlohmann::json;

std::string LineOf(std::uint64_t step, double loss = 1.0) {
  StepRecord record;
  record.step = Step{step};
  record.loss = loss;
  record.samples = 12;
  record.seconds = 0.5;
  record.time = 1000.0 + static_cast<double>(step);
  return StepLine(record) + "\n";
}

json Read(const testing::TempFolder& folder) {
  History history;
  ReadHistory(folder.path(), &history);
  return json::parse(history.Json());
}

TEST_CASE("steps and events come back from the files, older ones first", "[server][history]") {
  const testing::TempFolder folder;
  folder.Write("metrics.1.jsonl", LineOf(0) + LineOf(1));
  folder.Write("metrics.2.jsonl", LineOf(2) + LineOf(3));
  folder.Write("metrics.jsonl", LineOf(4) + LineOf(5) + LineOf(4, 2.0));  // step 4 was done again
  folder.Write("audit.jsonl", R"({"time":"1970-01-01T00:16:43Z","what":"lost","text":"\"w1\" died"})"
                              "\n"
                              R"({"time":"1970-01-01T00:16:43Z","what":"refused","text":"not shown"})"
                              "\n");
  const json history = Read(folder);
  REQUIRE(history["points"].size() == 5);
  for (std::size_t i = 0; i < 5; ++i) CHECK(history["points"][i]["step"] == i);
  CHECK(history["points"][4]["loss"] == 2.0);
  CHECK(history["events"] == json::array({{{"time", 1003.0}, {"step", 4}, {"kind", "lost"}, {"text", "\"w1\" died"}}}));
}

TEST_CASE("lines that are damaged are left out, and so is a file that is none", "[server][history]") {
  const testing::TempFolder folder;
  CHECK(Read(folder)["points"].empty());
  folder.Write("metrics.jsonl", LineOf(0) + "{\"step\": 1, \"loss\n" + std::string("\0\xff\n[[[[\n", 8) + "\n" +
                                    std::string(3 * kHistoryLineMax, '[') + "\n" + LineOf(2) + "{\"step\": 3}");
  const json points = Read(folder)["points"];
  REQUIRE(points.size() == 2);
  CHECK(points[0]["step"] == 0);
  CHECK(points[1]["step"] == 2);
  REQUIRE(mkfifo(folder.path("audit.jsonl").c_str(), 0600) == 0);  // to open it must not wait for a writer
  CHECK(Read(folder)["points"].size() == 2);
}

TEST_CASE("of files larger than the limit, the whole course is read in pieces", "[server][history]") {
  const testing::TempFolder folder(testing::TempFolder::Where::kDisk);
  const std::uint64_t line_bytes = LineOf(100'000).size();
  const std::uint64_t bytes_max = testing::TestTier() == testing::Tier::kAll ? kHistoryBytesMax : kHistoryBytesMax / 8;
  const std::uint64_t steps = 3 * bytes_max / line_bytes;
  {
    std::ofstream out(folder.path("metrics.jsonl"), std::ios::binary);
    for (std::uint64_t step = 0; step < steps; ++step) out << LineOf(step);
  }
  History history;
  ReadHistory(folder.path(), &history, bytes_max);
  CHECK(history.point_count() > 100);
  CHECK(history.point_count() <= History::kPointsMax);
  const json points = json::parse(history.Json())["points"];
  std::uint64_t before = 0, widest = 0;
  for (const json& point : points) {
    widest = std::max(widest, point["step"].get<std::uint64_t>() - before);
    before = point["step"];
  }
  CHECK(widest < steps / 100);
  CHECK(steps - before < steps / 100);
}

}  // namespace
}  // namespace capstan::server
