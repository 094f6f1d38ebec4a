#include "monitoring/trace.h"

#include <nlohmann/json.hpp>
#include <fstream>

#include "tests/catch.h"
#include "tests/temp_folder.h"

using namespace capstan;
using namespace capstan::monitoring;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Json = nlohmann::json;

namespace {

Json Read(const std::string& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

std::unique_ptr<Trace> Open(const std::string& path, const std::string& process) {
  auto trace = Trace::Open(path, process);
  REQUIRE(trace.ok());
  return std::move(trace).value();
}

std::vector<Json> SpansOf(const Json& file, const std::string& lane) {
  Json tid;
  std::vector<Json> spans;
  for (const Json& event : file["traceEvents"]) {
    if (event["ph"] == "M" && event["name"] == "thread_name" && event["args"]["name"] == lane) tid = event["tid"];
  }
  REQUIRE(tid.is_number());
  for (const Json& event : file["traceEvents"]) {
    if (event["ph"] == "X" && event["tid"] == tid) spans.push_back(event);
  }
  return spans;
}

}  // namespace

TEST_CASE("spans are written with their lane, in microseconds, in the order of time", "[trace]") {
  const testing::TempFolder folder;
  const auto trace = Open(folder.path("t.json"), "worker \"\xff\"\n");
  TraceLane* const one = trace->AddLane("compute");
  TraceLane* const two = trace->AddLane("pushes");
  one->Add("wait", TraceLane::Time(1500ns), TraceLane::Time(2ms), 7);
  one->Add("forward", TraceLane::Time(1500ns), TraceLane::Time(3ms), 7);  // encloses the span before
  one->Add("data", TraceLane::Time(0ns), TraceLane::Time(1234567ns));
  two->Add("push", TraceLane::Time(5ms), TraceLane::Time(4ms), 8);  // as if the clock had gone back
  REQUIRE(trace->Write().ok());
  const Json file = Read(folder.path("t.json"));
  CHECK(file["traceEvents"][0]["name"] == "process_name");
  CHECK_THAT(file["traceEvents"][0]["args"]["name"].get<std::string>(), Contains("worker \""));
  const std::vector<Json> spans = SpansOf(file, "compute");
  REQUIRE(spans.size() == 3);
  CHECK(spans[0]["name"] == "data");
  CHECK(spans[0]["dur"] == 1234.567);
  CHECK_FALSE(spans[0].contains("args"));
  CHECK(spans[1]["name"] == "forward");
  CHECK(spans[1]["ts"] == 1.5);
  CHECK(spans[1]["dur"] == 2998.5);
  CHECK(spans[2]["name"] == "wait");
  CHECK(spans[2]["args"]["step"] == 7);
  CHECK(SpansOf(file, "pushes")[0]["dur"] == 0);
  CHECK(spans[0]["tid"] != SpansOf(file, "pushes")[0]["tid"]);
}

TEST_CASE("a lane keeps its newest spans and says how many it left out", "[trace][long]") {
  const testing::TempFolder folder;
  const auto trace = Open(folder.path("t.json"), "p");
  TraceLane* const lane = trace->AddLane("compute");
  constexpr std::size_t kMore = 17;
  for (std::size_t i = 0; i < TraceLane::kSpansMax + kMore; ++i) {
    lane->Add("x", std::chrono::microseconds(i), std::chrono::microseconds(i + 1), i);
  }
  REQUIRE(trace->Write().ok());
  const std::vector<Json> spans = SpansOf(Read(folder.path("t.json")), "compute (17 older spans are left out)");
  REQUIRE(spans.size() == TraceLane::kSpansMax);
  for (std::size_t i = 0; i < spans.size(); i += 4093) REQUIRE(spans[i]["args"]["step"] == i + kMore);
  CHECK(spans.back()["args"]["step"] == TraceLane::kSpansMax + kMore - 1);
}

TEST_CASE("a trace without lanes is a file, and a place where none can be is named at once", "[trace]") {
  const testing::TempFolder folder;
  REQUIRE(Open(folder.path("t.json"), "p")->Write().ok());
  CHECK(Read(folder.path("t.json"))["traceEvents"].size() == 1);
  const auto nowhere = Trace::Open(folder.path("no/t.json"), "p");
  REQUIRE_FALSE(nowhere.ok());
  CHECK(nowhere.status().code() == Code::kInvalid);
  CHECK_THAT(nowhere.status().message(), Contains("no/t.json: cannot write there: No such file"));
  const auto full = Open("/dev/full", "p");
  CHECK(full->Write().code() == Code::kUnreachable);
}
