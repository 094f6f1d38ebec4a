#include "cli/view/render.h"

#include "cli/terminal/columns.h"
#include "cli/view/job_model.h"
#include "tests/catch.h"
#include "tests/tier.h"

namespace capstan::cli {
namespace {

using nlohmann::json;
using Lines = std::vector<std::string>;

JobModel Example() {
  JobModel model;
  model.source = "runs/small";
  TakeStatus(json::parse(R"({
    "job": "small", "state": "running", "step": 120, "steps": 600, "loss": 2.1342, "validation_loss": 2.2,
    "learning_rate": 0.001, "grad_norm": 1.25, "samples_per_second": 1234.5, "step_seconds": 0.0123,
    "seconds_left": 35, "worker_count": 2, "shard_count": 1,
    "bound_by": {"what": "worker", "who": "worker-1", "sentence": "worker-1 computes longest, 80 % of each step"},
    "workers": [{"worker": "worker-0", "state": "computing", "step": 120, "slots": "0-1", "last_heard": "0 s ago", "lag": 0,
                 "time": {"compute": 0.8, "input": 0.01, "exchange": 0.15, "commit": 0.04}},
                {"worker": "worker-1", "state": "waiting", "step": 119, "slots": "2", "last_heard": "1 s ago", "lag": 1}],
    "shards": [{"shard": "server 0", "state": "alive", "address": "tcp://127.0.0.1:9000", "busy": 0.4}],
    "snapshots": [{"version": 60, "age_seconds": 40}, {"version": 100, "age_seconds": 12.4}]})"),
             &model);
  json history = {{"points", json::array()}, {"events", json::array()}};
  for (int i = 0; i < 24; ++i) history["points"].push_back({{"step", 5 * i}, {"loss", 5.0 - 0.12 * i}});
  history["events"].push_back(
      {{"time", "12:00:01"}, {"step", 60}, {"kind", "snapshot"}, {"text", "snapshot of version 60"}});
  history["events"].push_back({{"time", "12:00:31"}, {"step", 100}, {"kind", "joined"}, {"text", "worker-1 joined"}});
  TakeHistory(history, &model);
  return model;
}

std::string Picture(const JobModel& model, int columns, int rows, bool utf8 = false) {
  std::string text = "\n";
  const TerminalLook look{false, false, utf8};
  for (const std::string& line : Render(model, {columns, rows}, {look, "q: quit"})) text += line + "\n";
  return text;
}

TEST_CASE("the picture of a job on a terminal of the usual size", "[cli][render]") {
  CHECK(Picture(Example(), 80, 24) == R"(
small: running                                                        runs/small
step 120 of 600 [########................................]  20 %  35 s left
loss 2.134  validation 2.2  lr 0.001  grad norm 1.25  1234 samples/s
0.0123 s/step  snapshot 100, 12 s ago
bound by: worker-1 computes longest, 80 % of each step
   5 | *****
     |      ******
     |            *******
     |                   ******
     |                         ******
     |                               ******
3.49 |                                     *******
     |                                            ******
     |                                                  ******
     |                                                        ******
     |                                                              *******
2.24 |                                                                     *****
       0                            loss by step                             115
worker-0  computing  step 120  lag 0  80 % compute, 15 % exchange  slots 0-1
worker-1  waiting    step 119  lag 1  slots 2  heard 1 s ago
server 0  alive      40 % busy  tcp://127.0.0.1:9000
12:00:01  step 60  snapshot of version 60
12:00:31  step 100  worker-1 joined
q: quit
)");
}

TEST_CASE("the picture of a job in braille", "[cli][render]") {
  CHECK(Picture(Example(), 60, 16, true) == R"(
small: running                                    runs/small
step 120 of 600 [#####....................]  20 %  35 s left
loss 2.134  validation 2.2  lr 0.001  grad norm 1.25
1234 samples/s  0.0123 s/step  snapshot 100, 12 s ago
bound by: worker-1 computes longest, 80 % of each step
   5 │ ⠉⠑⠒⠒⠒⠒⠤⠤⣀⣀⣀⣀⡀
     │             ⠈⠉⠉⠒⠒⠒⠒⠢⠤⠤⣀⣀⣀⣀⡀
     │                           ⠈⠉⠉⠉⠉⠒⠒⠤⠤⠤⠤⠤⣀⣀
2.24 │                                         ⠉⠉⠉⠉⠑⠒⠒⠤⠤⠤⠤⢄⣀
       0                  loss by step                   115
worker-0  computing  step 120  lag 0
worker-1  waiting    step 119  lag 1  slots 2  heard 1 s ago
server 0  alive      40 % busy  tcp://127.0.0.1:9000
12:00:01  step 60  snapshot of version 60
12:00:31  step 100  worker-1 joined
q: quit
)");
}

TEST_CASE("the picture of a job on a narrow terminal", "[cli][render]") {
  CHECK(Picture(Example(), 40, 24) == R"(
small: running                runs/small
step 120 of 600 [#....]  20 %  35 s left
loss 2.134  validation 2.2  lr 0.001
grad norm 1.25  1234 samples/s
0.0123 s/step  snapshot 100, 12 s ago
bound by: worker-1 computes longest, 80
% of each step
   5 | **
     |   ***
     |      ****
     |          ***
     |             ****
3.47 |                 ****
     |                     ***
     |                        ****
     |                            ***
2.24 |                               ***
       0        loss by step         115
worker-0  computing  step 120  lag 0
worker-1  waiting    step 119  lag 1
server 0  alive      40 % busy
12:00:01  step 60  snapshot of version ~
12:00:31  step 100  worker-1 joined
q: quit
)");
}

TEST_CASE("the picture of a job on a short terminal", "[cli][render]") {
  CHECK(Picture(Example(), 80, 6) == R"(
small: running                                                        runs/small
step 120 of 600 [########................................]  20 %  35 s left
loss 2.134  validation 2.2  lr 0.001  grad norm 1.25  1234 samples/s
0.0123 s/step  snapshot 100, 12 s ago
bound by: worker-1 computes longest, 80 % of each step
q: quit
)");
}

TEST_CASE("a job that does not answer, and one that waits, say so at the top", "[cli][render]") {
  JobModel model = Example();
  model.state = "waiting";
  model.waiting = "for worker-1, last heard 5 s ago; giving up after 600 s";
  model.notice = "no answer for 12 s, trying again; giving up in 588 s: connection refused";
  model.aside = {"worker-2 is set aside: it has other data"};
  CHECK(Picture(model, 60, 10) == R"(
small: waiting                                    runs/small
no answer for 12 s, trying again; giving up in 588 s:
connection refused
step 120 of 600 [#####....................]  20 %  35 s left
waiting: for worker-1, last heard 5 s ago; giving up after
600 s
loss 2.134  validation 2.2  lr 0.001  grad norm 1.25
1234 samples/s  0.0123 s/step  snapshot 100, 12 s ago
worker-2 is set aside: it has other data
q: quit
)");
}

TEST_CASE("a model without anything is a picture, too", "[cli][render]") {
  JobModel model;
  model.source = "runs/small";
  CHECK(Picture(model, 30, 24) == R"(
                    runs/small
no step yet
q: quit
)");
}

TEST_CASE("every picture fits its terminal", "[cli][render]") {
  JobModel model = Example();
  model.job = "\u6f22\u5b57-job";
  model.waiting = std::string(300, 'w') + " and so on " + std::string(300, 'x');
  model.failure = "a \u00e9 " + std::string(100, 'f');
  const bool all = testing::TestTier() == testing::Tier::kAll;
  const int workers = all ? 300 : 100;
  for (int i = 0; i < workers; ++i)
    model.workers.push_back({"worker-" + std::to_string(i), "computing", "0", "", 5, 0.5});
  model.worker_count = 4096;
  for (const bool utf8 : {false, true}) {
    for (int columns = 1; columns <= 130; columns += all ? 3 : 6) {
      for (int rows = 1; rows <= 60; rows += all || rows < 25 ? 1 : 5) {
        const Lines lines = Render(model, {columns, rows}, {{false, false, utf8}, "q: quit"});
        REQUIRE(lines.size() <= static_cast<std::size_t>(rows));
        for (const std::string& line : lines) REQUIRE(ColumnsOf(line) <= static_cast<std::size_t>(columns));
        if (utf8) continue;
        for (const std::string& line : lines) REQUIRE(AsciiOf(line) == line);
      }
    }
  }
}

TEST_CASE("workers that find no row are counted", "[cli][render]") {
  JobModel model = Example();
  for (int i = 2; i < 100; ++i) model.workers.push_back({"worker-" + std::to_string(i), "computing", "0", "", 5, 0.5});
  model.worker_count = 1000;
  const std::string picture = Picture(model, 80, 24);
  CHECK(picture.find("more workers and shards\n") != std::string::npos);
  CHECK(picture.find("worker-99") == std::string::npos);
}

TEST_CASE("colors stand only where they may", "[cli][render]") {
  JobModel model = Example();
  model.notice = "no answer";
  for (const std::string& line : Render(model, {80, 24}, {{true, false, true}, ""}))
    CHECK(line.find('\033') == line.npos);
  const Lines lines = Render(model, {80, 24}, {{true, true, true}, ""});
  CHECK(lines[0].starts_with("\033[1m"));
  CHECK(lines[1] == "\033[1;31mno answer\033[0m");
}

TEST_CASE("answers of another form leave the model empty, and texts in it are printable", "[cli][render]") {
  for (const char* text :
       {"null", "[]", "5", "\"x\"", R"({"workers": {}, "shards": 5, "step": -1, "loss": "x"})",
        R"({"workers": [1, null, {"worker": 7}], "snapshots": [{}], "bound_by": 7, "steps": 1e400})"}) {
    JobModel model;
    const json answer = json::parse(text, nullptr, false);
    TakeStatus(answer, &model);
    TakeHistory(answer, &model);
    CHECK_FALSE(model.figures.step);
    CHECK(model.bound_by.empty());
    CHECK_FALSE(Render(model, {80, 24}, {}).empty());
  }
  JobModel model;
  TakeStatus({{"job", "a\033[2Jb\n"}, {"state", std::string(10'000, 's')}, {"workers", {{{"worker", "\033]0;x\007"}}}}},
             &model);
  CHECK(model.job == "a\\x1B[2Jb\\x0A");
  CHECK(model.state.size() < 3000);
  CHECK(model.workers.at(0).name == "\\x1B]0;x\\x07");
}

TEST_CASE("a notice and a source control no terminal", "[cli][render]") {
  JobModel model;
  model.source = "run\033[2J";
  model.notice = "not running; \033]0;x\007";
  const Lines lines = Render(model, {80, 24}, {});
  CHECK(lines.at(0).ends_with("run\\x1B[2J"));
  CHECK(lines.at(1) == "not running; \\x1B]0;x\\x07");
}

TEST_CASE("of very many rows only so many are kept", "[cli][render]") {
  json status = {{"workers", json::array()}}, history = {{"events", json::array()}};
  for (int i = 0; i < 1000; ++i) {
    status["workers"].push_back({{"worker", "w"}});
    history["events"].push_back({{"time", 1e9 + i}, {"text", std::to_string(i)}});
  }
  JobModel model;
  TakeStatus(status, &model);
  TakeHistory(history, &model);
  CHECK(model.workers.size() == JobModel::kRowsMax);
  REQUIRE(model.events.size() == JobModel::kRowsMax);
  CHECK(model.events.back().text == "999");
  CHECK(model.events.back().when.size() == 8);
}

}  // namespace
}  // namespace capstan::cli
