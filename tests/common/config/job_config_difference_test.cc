// Tests which settings may change when a job is continued, and the message for those that must not.
#include "common/config/job_config.h"
#include "tests/catch.h"
#include "tests/common/config/smallest_job.h"

namespace capstan {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;
using testing::kSmallestJob;
using testing::ParseJob;

TEST_CASE("a job is continued with other members, places and limits, and with nothing else that differs", "[config]") {
  const std::vector<std::string> base = {"job.slots=4", "data.kind=csv", "data.path=here"};
  const JobConfig begun = ParseJob(kSmallestJob, base);
  const auto difference = [&](const std::string& override) {
    std::vector<std::string> overrides = base;
    overrides.push_back(override);
    return DescribeDifference(begun, ParseJob(kSmallestJob, overrides));
  };
  CHECK(DescribeDifference(begun, begun).empty());
  for (const char* free : {"cluster.servers=3",        "cluster.shards_per_server=2",
                           "cluster.workers=3",        "cluster.coordinator=h:1",
                           "cluster.listen=h:1",       "cluster.advertise=h",
                           "worker.threads=2",         "limits.stall=5",
                           "metrics.listen=h:9",       "snapshot.every_steps=5",
                           "snapshot.every_seconds=1", "snapshot.keep=9",
                           "data.path=elsewhere",      "job.steps=11",
                           "job.eval_every=3",         "job.on_nonfinite=skip",
                           "job.aggregation=median",   "optimizer.lr=0.5",
                           "optimizer.clip_norm=1",    "schedule.kind=cosine",
                           "schedule.warmup_steps=1"}) {
    INFO(free);
    CHECK(difference(free).empty());
  }
  struct Bound {
    const char* override;
    const char* section;
    const char* now;
  };
  for (const Bound& bound :
       {Bound{"job.slots=5", "[job]", "slots = 5"}, Bound{"job.seed=2", "[job]", "seed = 2"},
        Bound{"job.mode=async", "[job]", "mode = \"async\""},
        Bound{"job.global_batch=16", "[job]", "global_batch = 16"},
        Bound{"optimizer.eps=0.5", "[optimizer]", "eps = 0.5"}, Bound{"model.dropout=0.1", "[model]", "dropout = 0.1"},
        Bound{"worker.accumulate=2", "[worker]", "accumulate = 2"},
        Bound{"data.label_column=3", "[data]", "label_column = 3"}}) {
    INFO(bound.override);
    CHECK_THAT(difference(bound.override),
               StartsWith(bound.section) && Contains("it was begun with") && Contains(std::string("now ") + bound.now));
  }
  CHECK_THAT(difference("job.slots=5"),
             Equals("[job]: it was begun with slots = 4, now slots = 5: the samples of every "
                    "slot and the order of all sums follow from it"));
  // The printed files are compared line by line. After the first key that only one of the kinds has, all lines differ.
  // The message names the line of the kind itself, because it comes before them.
  CHECK_THAT(difference("optimizer.kind=sgd"), Contains("now kind = \"sgd\""));
}

TEST_CASE("what a job is continued with is said key by key", "[config]") {
  const JobConfig begun = ParseJob(kSmallestJob);
  CHECK(DescribeChanges(begun, begun).empty());
  CHECK(DescribeChanges(begun, ParseJob(kSmallestJob, {"cluster.servers=3", "limits.stall=5"})).empty());
  CHECK(DescribeChanges(begun, ParseJob(kSmallestJob, {"optimizer.lr=0.5", "job.steps=1000"})) ==
        std::vector<std::string>{"job.steps = 1000 (it was 10)", "optimizer.lr = 0.5 (it was 0.001)"});
  const std::vector<std::string> cosine = DescribeChanges(begun, ParseJob(kSmallestJob, {"schedule.kind=cosine"}));
  REQUIRE_FALSE(cosine.empty());
  CHECK(cosine.front() == "schedule.kind = \"cosine\" (it was \"constant\")");
}

}  // namespace
}  // namespace capstan
