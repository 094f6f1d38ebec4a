#include "cli/view/step_records.h"

#include <cmath>
#include <fstream>

#include "cli/run/json_fields.h"
#include "cli/view/metrics_table.h"
#include "common/base/rotated_file.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan::cli {
namespace {

using nlohmann::json;

std::string Record(int step, int generation, const std::string& more = "") {
  return "{\"step\": " + std::to_string(step) + ", \"generation\": " + std::to_string(generation) + more + "}\n";
}

// The records that count, each as "step:generation".
std::string Counted(const StepRecords& records) {
  std::string text;
  records.ForEach([&](const json& record, std::string_view) {
    text += (text.empty() ? "" : " ") + record["step"].dump() + ":" + record["generation"].dump();
  });
  return text;
}

TEST_CASE("of a step that was done again, the last record counts", "[cli][step_records]") {
  const testing::TempFolder folder;
  std::string text;
  for (int step = 0; step < 6; ++step) text += Record(step, 1);
  for (int step = 3; step < 8; ++step) text += Record(step, 2);
  for (int step = 6; step < 9; ++step) text += Record(step, 3);
  for (int step = 5; step < 7; ++step) text += Record(step, 4);
  StepRecords records(folder.Write("metrics.jsonl", text));
  records.Survey();
  CHECK(records.records() == 16);
  CHECK(Counted(records) == "0:1 1:1 2:1 3:2 4:2 5:4 6:4");
}

TEST_CASE("a recovery that goes back to the beginning leaves none of the steps before", "[cli][step_records]") {
  const testing::TempFolder folder;
  StepRecords records(folder.Write("metrics.jsonl", Record(0, 1) + Record(1, 1) + Record(0, 2)));
  records.Survey();
  CHECK(Counted(records) == "0:2");
}

TEST_CASE("pieces are read in order, and lines that are no step are counted", "[cli][step_records]") {
  const testing::TempFolder folder;
  const std::string path =
      folder.Write("metrics.jsonl", Record(0, 1) + "\n{\n[1]\n{\"step\": -1}\n\xff\n" + Record(1, 1));
  REQUIRE(RotateFile(path, 7).ok());
  folder.Write("metrics.jsonl", Record(2, 1) + "{\"step\": 3");
  StepRecords records(path);
  records.Survey();
  CHECK(records.bad_lines() == 5);
  CHECK(Counted(records) == "0:1 1:1 2:1");
}

TEST_CASE("steps that are written after the survey are left out", "[cli][step_records]") {
  const testing::TempFolder folder;
  const std::string path = folder.Write("metrics.jsonl", Record(0, 1));
  StepRecords records(path);
  records.Survey();
  std::ofstream(path, std::ios::app) << Record(1, 1);
  CHECK(Counted(records) == "0:1");
}

TEST_CASE("columns are those of all records, and metrics of the user's own have names of their own",
          "[cli][step_records]") {
  const testing::TempFolder folder;
  StepRecords records(folder.Write("metrics.jsonl",
                                   Record(0, 1) + Record(1, 1, R"(, "loss": null, "metrics": {"hits": 3, "a,b": 1})")));
  records.Survey();
  CHECK(records.columns() == std::vector<std::string>{"generation", "step", "loss", "metrics.a,b", "metrics.hits"});
  const json record = json::parse(R"({"step": 1, "loss": null, "action": "apply", "metrics": {"hits": 3}})");
  CHECK(ValueAt(record, "metrics.hits") == 3.0);
  CHECK(std::isnan(ValueAt(record, "loss").value()));
  for (const char* key : {"action", "metrics", "metrics.none", "none", "metrics.", ""})
    CHECK_FALSE(ValueAt(record, key));
  CHECK_FALSE(ValueAt(json::parse(R"({"metrics": 5})"), "metrics.hits"));
}

TEST_CASE("JSON that is nested too deep is no record", "[cli][step_records]") {
  const auto nested = [](std::size_t depth) {
    return ", \"deep\": " + std::string(depth, '[') + std::string(depth, ']');
  };
  const testing::TempFolder folder;
  StepRecords records(folder.Write("metrics.jsonl", Record(0, 1) + Record(1, 1, nested(400'000)) +
                                                        Record(2, 1, nested(kJsonDepthMax - 1)) +
                                                        Record(3, 1, nested(kJsonDepthMax + 1))));
  records.Survey();
  CHECK(Counted(records) == "0:1 2:1");
  CHECK(records.bad_lines() == 2);
  CHECK(records.columns() == std::vector<std::string>{"generation", "step"});  // a list is no cell of a table
  CHECK(ParseJson(R"({"a": [1, {"b": "x"}]})").dump() == R"({"a":[1,{"b":"x"}]})");
  CHECK(ParseJson("{\"a\": ").is_discarded());
  CHECK(ParseJson(std::string(400'000, '[')).is_discarded());
}

TEST_CASE("the columns have a limit", "[cli][step_records]") {
  const testing::TempFolder folder;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += Record(i, 1, ", \"k" + std::to_string(i) + "\": 1");
  StepRecords records(folder.Write("metrics.jsonl", text));
  records.Survey();
  CHECK(records.columns().size() == StepRecords::kColumnsMax);
}

TEST_CASE("a cell of a CSV file has quotes where it needs them", "[cli][step_records]") {
  CHECK(CsvCell("loss") == "loss");
  CHECK(CsvCell("a,b") == "\"a,b\"");
  CHECK(CsvCell("a\"b\n") == "\"a\"\"b\\x0A\"");  // nothing in it controls a terminal
  CHECK(CsvCell("\033]0;x\007") == "\\x1B]0;x\\x07");
}

}  // namespace
}  // namespace capstan::cli
