// The curves and events of a job in bounded memory.
#include "server/coordinator/history.h"

#include <nlohmann/json.hpp>
#include <cmath>
#include <limits>

#include "tests/catch.h"

namespace capstan::server {
namespace {

using JsonValue = nlohmann::json;

StepRecord StepOf(std::uint64_t step, double loss = 1.0) {
  StepRecord record;
  record.step = Step{step};
  record.loss = loss;
  record.learning_rate = 0.5;
  record.gradient_norm = 2.0;
  record.samples = 30;
  record.seconds = 0.25;
  record.time = 1000.0 + static_cast<double>(step);
  return record;
}

JsonValue JsonOf(const History& history) { return JsonValue::parse(history.Json()); }

std::vector<std::uint64_t> StepsOf(const History& history) {
  std::vector<std::uint64_t> steps;
  const JsonValue points = JsonOf(history)["points"];
  for (const JsonValue& point : points) steps.push_back(point["step"]);
  return steps;
}

TEST_CASE("a step is a point with its figures", "[server][history]") {
  History history;
  StepRecord record = StepOf(7, 0.123456789);
  history.AddStep(record);
  record = StepOf(8);
  record.validation_loss = 3.0;
  history.AddStep(record);
  const JsonValue shown = JsonOf(history);
  CHECK(shown["steps_per_point"] == 1);
  CHECK(shown["points"][0] == JsonValue{{"step", 7},
                                        {"time", 1007.0},
                                        {"loss", 0.123457},
                                        {"learning_rate", 0.5},
                                        {"grad_norm", 2.0},
                                        {"samples_per_second", 120.0}});
  CHECK(shown["points"][1]["validation_loss"] == 3.0);
}

TEST_CASE("a figure that is not finite is null, and does not spoil its neighbours' mean", "[server][history]") {
  History history;
  history.AddStep(StepOf(0, std::nan("")));
  CHECK(JsonOf(history)["points"][0]["loss"].is_null());
  StepRecord endless = StepOf(1, std::numeric_limits<double>::infinity());
  endless.seconds = 0;
  history.AddStep(endless);
  CHECK(JsonOf(history)["points"][1]["samples_per_second"].is_null());
  for (std::uint64_t step = 2; step < 2 * History::kPointsMax; ++step)
    history.AddStep(StepOf(step, step % 2 ? 4.0 : std::nan("")));
  const JsonValue points = JsonOf(history)["points"];
  for (const JsonValue& point : points) {
    if (point["step"] > 1) REQUIRE(point["loss"] == 4.0);
  }
}

TEST_CASE("a long job keeps its whole course in a bounded number of points", "[server][history]") {
  History history;
  constexpr std::uint64_t kSteps = 50 * History::kPointsMax + 1;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    history.AddStep(StepOf(step, static_cast<double>(step)));
    REQUIRE(history.point_count() <= History::kPointsMax);
  }
  CHECK(history.steps_per_point() == 64);
  CHECK(history.point_count() > History::kPointsMax / 2);
  const JsonValue points = JsonOf(history)["points"];
  CHECK(points[0]["step"] == 63);
  CHECK(points[0]["loss"] == 31.5);  // the mean of steps 0 to 63
  CHECK(points[0]["samples_per_second"] == 120.0);
  CHECK(points.back()["step"] == kSteps - 1);
}

TEST_CASE("steps of any distance are kept in a bounded number of points", "[server][history]") {
  History history;
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  for (std::uint64_t i = 0; i < 3 * History::kPointsMax; ++i)
    history.AddStep(StepOf(i * (kMost / (3 * History::kPointsMax))));
  history.AddStep(StepOf(kMost));
  CHECK(history.point_count() <= History::kPointsMax);
  CHECK(StepsOf(history).back() == kMost);
}

TEST_CASE("steps that are done again replace the earlier ones", "[server][history]") {
  History history;
  for (std::uint64_t step = 0; step < 10; ++step) history.AddStep(StepOf(step, 1.0));
  history.AddStep(StepOf(6, 2.0));
  CHECK(StepsOf(history) == std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 6});
  CHECK(JsonOf(history)["points"].back()["loss"] == 2.0);
  history.AddStep(StepOf(0, 3.0));
  CHECK(StepsOf(history) == std::vector<std::uint64_t>{0});
}

TEST_CASE("events are bounded, and many of one kind do not drive out the others", "[server][history]") {
  History history;
  history.AddEvent({AuditKind::kLost, "w0 died"}, 5.5, 3);
  for (std::size_t i = 0; i < 3 * History::kEventsMax; ++i) {
    history.AddEvent({AuditKind::kSnapshot, "snapshot " + std::to_string(i)}, 6.0, 4);
    REQUIRE(history.event_count() <= History::kEventsMax);
  }
  history.AddEvent({AuditKind::kRefused, "no event of the page"}, 7.0, 4);
  history.AddEvent({AuditKind::kSnapshotDeleted, "nor this"}, 7.0, 4);
  const JsonValue events = JsonOf(history)["events"];
  CHECK(events.size() == History::kEventsMax);
  CHECK(events[0] == JsonValue{{"time", 5.5}, {"step", 3}, {"kind", "lost"}, {"text", "w0 died"}});
  CHECK(events.back()["text"] == "snapshot " + std::to_string(3 * History::kEventsMax - 1));
}

TEST_CASE("each event has the page's name of its kind, and a text of bounded length", "[server][history]") {
  History history;
  const std::vector<std::pair<AuditKind, std::string>> kinds = {
      {AuditKind::kStarted, "start"},      {AuditKind::kJoined, "join"},       {AuditKind::kLeft, "leave"},
      {AuditKind::kLost, "lost"},          {AuditKind::kRecovery, "recovery"}, {AuditKind::kSnapshot, "snapshot"},
      {AuditKind::kSetAside, "set_aside"}, {AuditKind::kEnded, "end"}};
  for (const auto& [kind, name] : kinds) history.AddEvent({kind, std::string(5000, 'x') + "\xff"}, 1.0, 1);
  const JsonValue events = JsonOf(history)["events"];
  REQUIRE(events.size() == kinds.size());
  for (std::size_t i = 0; i < kinds.size(); ++i) CHECK(events[i]["kind"] == kinds[i].second);
  CHECK(events[0]["text"].get<std::string>().size() <= History::kEventTextMax);
}

TEST_CASE("the largest history is an answer of less than a megabyte", "[server][history]") {
  History history;
  for (std::uint64_t step = 0; step < History::kPointsMax; ++step) {
    StepRecord record = StepOf((std::uint64_t{1} << 50) + step, -1.23456789e-300);
    record.validation_loss = record.learning_rate = record.gradient_norm = -1.23456789e-300;
    record.time = 1764230000.123;
    history.AddStep(record);
  }
  const char letter = GENERATE('"', '\x01', '\x7f');
  for (std::size_t i = 0; i < History::kEventsMax; ++i)
    history.AddEvent({AuditKind::kLost, std::string(History::kEventTextMax, letter)}, 1764230000.123,
                     std::uint64_t{1} << 50);
  CHECK(history.Json().size() < 1'000'000);
}

TEST_CASE("the step of an earlier time is that of the newest point before it", "[server][history]") {
  History history;
  CHECK(history.StepsAt(5) == 0);
  for (std::uint64_t step = 0; step < 10; ++step) history.AddStep(StepOf(step));
  CHECK(history.StepsAt(999) == 0);
  CHECK(history.StepsAt(1004.5) == 5);
  CHECK(history.StepsAt(5000) == 10);
}

}  // namespace
}  // namespace capstan::server
