#include "cli/report/progress.h"

#include <fstream>

#include "common/base/rotated_file.h"
#include "common/config/job/job_section.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan::cli {
namespace {

std::string StepLine(int step, double loss, double seconds, const std::string& more = "") {
  return "{\"step\": " + std::to_string(step) + ", \"loss\": " + std::to_string(loss) +
         ", \"samples\": 10, \"seconds\": " + std::to_string(seconds) + more + "}";
}

TEST_CASE("the line says step, loss, speed of the latest steps and time left", "[cli][progress]") {
  Progress progress("", 100);
  std::vector<std::string> keep;
  CHECK(progress.Line().empty());
  progress.AddLine(StepLine(0, 9.0, 100.0), &keep);  // the first steps are slow: forgotten by and by
  for (int step = 1; step <= 19; ++step) progress.AddLine(StepLine(step, 2.5, 0.5), &keep);
  CHECK(progress.Line() == "step 20/100  loss 2.5000  20.0 samples/s  40 s left");
  CHECK(keep.empty());
}

TEST_CASE("a job that ends with its programs' loops has no last step and no time left", "[cli][progress]") {
  Progress progress("", kOpenEndedSteps);
  std::vector<std::string> keep;
  for (int step = 0; step <= 19; ++step) progress.AddLine(StepLine(step, 2.5, 0.5), &keep);
  CHECK(progress.Line() == "step 20  loss 2.5000  20.0 samples/s");
}

TEST_CASE("validations are lines of their own", "[cli][progress]") {
  Progress progress("", 100);
  std::vector<std::string> keep;
  progress.AddLine(StepLine(9, 1.0, 0.5, R"(, "validation_loss": 0.5, "validation_accuracy": 0.975)"), &keep);
  CHECK(keep == std::vector<std::string>{"validation at step 9: loss 0.5000, 97.5 % right"});
}

TEST_CASE("lines that are no step, and a loss that is no number, do no harm", "[cli][progress]") {
  Progress progress("", 2);
  std::vector<std::string> keep;
  for (const char* line : {"", "{", "[1]", "{\"step\": \"x\"}", "{\"step\": 1, \"action\": 5}"})
    progress.AddLine(line, &keep);
  progress.AddLine(R"({"step": 1, "loss": null, "action": "skip"})", &keep);
  CHECK(progress.Line() == "step 2/2  loss not finite");
  CHECK(progress.steps_skipped() == 1);
}

TEST_CASE("a step is a whole number that can be counted, and any other line is no step", "[cli][progress]") {
  Progress progress("", 2);
  std::vector<std::string> keep;
  for (const char* step : {"-1", "0.5", "1e300", "18446744073709551615", "18446744073709551616", "null"}) {
    progress.AddLine(std::string("{\"step\": ") + step + ", \"validation_loss\": 1}", &keep);
  }
  CHECK(progress.steps_done() == 0);
  CHECK(progress.Line().empty());
  CHECK(keep.empty());
}

TEST_CASE("samples and times that no run has do not count into the speed", "[cli][progress]") {
  Progress progress("", 9'000'000'000'000'000'000);
  std::vector<std::string> keep;
  for (const char* more : {"1e300, \"seconds\": 1e300", "-5, \"seconds\": -2", "10, \"seconds\": 0.5"}) {
    progress.AddLine(std::string("{\"step\": 1, \"loss\": 1, \"samples\": ") + more + "}", &keep);
  }
  CHECK(progress.Line() == "step 2/9000000000000000000  loss 1.0000  20.0 samples/s  more than 1000 days left");
}

TEST_CASE("a loss far above the first, or none, is a run that diverged", "[cli][progress]") {
  const auto divergence = [](const std::vector<std::string>& losses) {
    Progress progress("", 100);
    std::vector<std::string> keep;
    for (std::size_t i = 0; i < losses.size(); ++i) {
      progress.AddLine("{\"step\": " + std::to_string(i) + ", \"loss\": " + losses[i] + "}", &keep);
    }
    return progress.Divergence();
  };
  CHECK(divergence({}).empty());
  CHECK(divergence({"2.5"}).empty());
  CHECK(divergence({"2.5", "1e9", "24.9"}).empty());  // only the end counts
  CHECK(divergence({"-1", "50"}).empty());
  CHECK(divergence({"2.5", "1", "25.1"}).starts_with("the loss rose from 2.5 to 25.1: training diverged"));
  CHECK(divergence({"2.5", "null"}).starts_with("the loss went from 2.5 to one that is not finite"));
  CHECK(divergence({"null", "null"}).starts_with("the loss went from a number to one that is not finite"));
}

TEST_CASE("times are short to read", "[cli][progress]") {
  CHECK(Duration(0.4) == "0 s");
  CHECK(Duration(59.4) == "59 s");
  CHECK(Duration(125) == "2:05");
  CHECK(Duration(3723) == "1:02:03");
  CHECK(Duration(1e300) == "more than 1000 days");
}

TEST_CASE("steps are read on where the file was put aside meanwhile, and from its pieces at first", "[cli][progress]") {
  const testing::TempFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  const auto write = [&](int first, int last, const std::string& more = "") {
    std::ofstream out(path, std::ios::app);
    for (int step = first; step <= last; ++step) out << StepLine(step, 1.0, 0.5, R"(, "action": "skip")") << "\n";
    out << more;
  };
  Progress progress(path, 100);
  CHECK(progress.Update().empty());
  write(0, 4, R"({"step": 5, )");  // half a line
  progress.Update();
  CHECK(progress.steps_done() == 5);
  write(6, 6);  // and its other half, which is no step by itself
  REQUIRE(RotateFile(path, 9).ok());
  write(7, 9);
  progress.Update();
  CHECK(progress.steps_done() == 10);
  CHECK(progress.steps_skipped() == 8);
  REQUIRE(RotateFile(path, 9).ok());  // between two, and none there yet
  progress.Update();
  write(10, 10);
  REQUIRE(RotateFile(path, 9).ok());
  write(11, 11);
  progress.Update();
  CHECK(progress.steps_done() == 12);
  CHECK(progress.steps_skipped() == 10);

  Progress later(path, 100);
  later.Update();
  CHECK(later.steps_done() == 12);
  CHECK(later.steps_skipped() == 10);
}

}  // namespace
}  // namespace capstan::cli
