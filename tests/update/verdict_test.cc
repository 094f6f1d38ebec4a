#include "update/verdict.h"
#include "common/wire/messages/prepared.h"

#include <cmath>
#include <limits>

#include "common/base/random.h"
#include "common/config/job/job_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job/schedule_section.h"
#include "common/config/job/worker_section.h"
#include "common/config/job_config.h"
#include "common/data/loss_scale.h"
#include "tests/catch.h"
#include "update/schedule.h"

namespace capstan::server {
namespace {

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

EditableJobConfig MakeConfig() {
  EditableJobConfig config;
  config.job.steps = 10;
  config.optimizer.lr = 0.5;
  return config;
}

// The shards' reports on a step in which each tensor is one block. `squares` has the tensors' squares in catalog order.
class Step4 {
 public:
  Step4(std::vector<double> squares, std::uint32_t shards, std::uint64_t samples = 6)
      : catalog_(Catalog::Create(Tensors(squares.size()), 4).value()), order_(catalog_, shards), prepared_(shards) {
    const std::vector<ShardIndex> placement = PlaceBlocks(catalog_, shards);
    for (std::size_t i = 0; i < squares.size(); ++i) {
      prepared_[placement[i]].report.segment_squares.push_back(squares[i]);
    }
    for (ShardIndex shard = 0; shard < shards; ++shard) {
      prepared_[shard].shard = shard;
      prepared_[shard].step = Step{4};
      prepared_[shard].generation = Generation{2};
    }
    for (SlotIndex slot = 0; slot < 3; ++slot) {
      SlotReport report;
      report.slot = slot;
      report.samples = samples / 3;
      report.loss_sum = 1.0 + slot;
      report.predictions = 2 * report.samples;
      prepared_[slot % shards].report.slots.push_back(report);
    }
  }
  Verdict Judge(const JobConfig& config, std::uint32_t attempt = 0, std::uint64_t updates = 3,
                float loss_scale = 1.0F) const {
    std::vector<const Prepared*> all;
    for (const Prepared& one : prepared_) all.push_back(&one);
    StepParameters parameters;
    parameters.updates = updates;
    parameters.learning_rate = 0.25F;
    parameters.loss_scale = loss_scale;
    parameters.program_state = "before";
    return Decide(config, catalog_, order_, all, attempt, parameters);
  }
  std::vector<Prepared>& prepared() { return prepared_; }
  void SetClipping(const Clipping& clipping) {
    for (Prepared& one : prepared_) {
      for (SlotReport& report : one.report.slots) report.clipping = clipping;
    }
  }
  static std::vector<TensorSpec> Tensors(std::size_t count) {
    std::vector<TensorSpec> tensors;
    for (std::size_t i = 0; i < count; ++i) tensors.push_back({"t" + std::to_string(i), {4}, {}, true});
    return tensors;
  }

 private:
  Catalog catalog_;
  SegmentOrder order_;
  std::vector<Prepared> prepared_;
};

TEST_CASE("the loss scale goes as GradScaler's: halved by what is not finite, doubled after good steps",
          "[server][verdict]") {
  // The scales that torch.cuda.amp.GradScaler(growth_interval=3) has after each update().
  const bool finite[] = {true, true, true, false, false, true, true, true, true};
  const float wanted[] = {65536, 65536, 131072, 65536, 32768, 32768, 32768, 65536, 65536};
  LossScale scale;
  for (int i = 0; i < 9; ++i) {
    scale.Count(finite[i], 3);
    CHECK(scale.scale == wanted[i]);
  }
}

TEST_CASE("fp16: a step that is not finite is skipped with half the scale, until no scale helps", "[server][verdict]") {
  EditableJobConfig config = MakeConfig();
  CHECK(ParametersOf(config, Step{0}, 0).loss_scale == 1.0F);
  config.worker.precision = Precision::kFp16;
  CHECK(ParametersOf(config, Step{0}, 0).loss_scale == 65536.0F);
  const Verdict bad = Step4({25.0, kInfinity}, 2).Judge(config, 0, 3, 1024.0F);
  CHECK(bad.kind == Verdict::Kind::kCommit);
  CHECK(bad.action == StepAction::kSkip);
  CHECK(bad.next.loss_scale == 512.0F);
  CHECK(bad.next.updates == 3);
  CHECK(bad.record.loss_scale == 1024.0);
  const Verdict good = Step4({25.0, 1.0}, 2).Judge(config, 0, 3, 1024.0F);
  CHECK(good.action == StepAction::kApply);
  CHECK(good.next.loss_scale == 1024.0F);
  CHECK(good.next.good_steps == 1);
  const Verdict hopeless = Step4({25.0, kInfinity}, 2).Judge(config, 0, 3, kLeastLossScale);
  CHECK(hopeless.kind == Verdict::Kind::kStop);
  CHECK_THAT(hopeless.reason, Catch::Contains("too large for fp16") && Catch::Contains("worker.precision = \"bf16\""));
  config.job.on_nonfinite = NonFinitePolicy::kSkip;
  const Verdict least = Step4({25.0, kInfinity}, 2).Judge(config, 0, 3, kLeastLossScale);
  CHECK(least.kind == Verdict::Kind::kCommit);
  CHECK(least.next.loss_scale == kLeastLossScale);  // halved further it would become 0 and never grow
}

TEST_CASE("clipping goes by the norm over all shards: gradients [3, 4] and [12] have norm 13", "[server][verdict]") {
  EditableJobConfig config = MakeConfig();
  config.optimizer.clip_norm = 1.0;
  const Verdict verdict = Step4({25.0, 144.0}, 2).Judge(config);
  CHECK(verdict.kind == Verdict::Kind::kRedo);
  CHECK(verdict.record.gradient_norm == 13.0);
  CHECK(verdict.clip == Approx(0.0769231).epsilon(1e-6));  // shard by shard it would be 0.2 and 0.0833333
  CHECK(verdict.clip == static_cast<float>(1.0 / (13.0 + 1e-6)));
  const Verdict again = Step4({25.0, 144.0}, 2).Judge(config, 1);
  CHECK(again.kind == Verdict::Kind::kCommit);
  CHECK(again.action == StepAction::kApply);
  CHECK(again.record.gradient_norm == 13.0);  // displayed as before clipping
}

TEST_CASE("a limit that all slots bring replaces the job file's norm", "[server][verdict]") {
  EditableJobConfig config = MakeConfig();
  config.optimizer.clip_norm = 100.0;
  Step4 step({25.0, 144.0}, 2);
  step.SetClipping({.norm = 6.5});
  const Verdict verdict = step.Judge(config);
  CHECK(verdict.kind == Verdict::Kind::kRedo);
  CHECK(verdict.clip == static_cast<float>(6.5 / (13.0 + 1e-6)));
  CHECK(verdict.clip_value == 0.0F);
  CHECK(step.Judge(config, 1).kind == Verdict::Kind::kCommit);
  step.SetClipping({.norm = 14.0});
  CHECK(step.Judge(config).kind == Verdict::Kind::kCommit);
}

TEST_CASE("a limit of each element is applied by one more attempt, and the norm stays that before it",
          "[server][verdict]") {
  Step4 step({25.0, 144.0}, 2);
  step.SetClipping({.value = 0.5});
  const Verdict verdict = step.Judge(MakeConfig());
  CHECK(verdict.kind == Verdict::Kind::kRedo);
  CHECK(verdict.clip == 1.0F);
  CHECK(verdict.clip_value == 0.5F);
  const Verdict again = step.Judge(MakeConfig(), 1);
  CHECK(again.kind == Verdict::Kind::kCommit);
  CHECK(again.record.gradient_norm == 13.0);
}

TEST_CASE("slots with different limits stop the job, and two of them are named", "[server][verdict]") {
  Step4 step({25.0, 144.0}, 2);
  step.SetClipping({.norm = 1.0});
  step.prepared()[1].report.slots.front().clipping.norm = 2.0;  // slot 1
  const Verdict verdict = step.Judge(MakeConfig());
  CHECK(verdict.kind == Verdict::Kind::kStop);
  CHECK_THAT(verdict.reason, Catch::Contains("step 4: slots 0 and 1 ended with different limits for clipping") &&
                                 Catch::Contains("(norm 1, and norm 2)"));
}

TEST_CASE("the limits of a slot without samples neither stop a job nor clip its step", "[server][verdict]") {
  Step4 step({25.0, 144.0}, 2);
  step.SetClipping({.norm = 6.5});
  SlotReport& empty = step.prepared()[0].report.slots.front();  // slot 0, the first of all
  REQUIRE(empty.samples > 0);
  empty.samples = 0;
  empty.clipping = {.norm = 1.0};
  const Verdict verdict = step.Judge(MakeConfig());
  CHECK(verdict.kind == Verdict::Kind::kRedo);
  CHECK(verdict.clip == static_cast<float>(6.5 / (13.0 + 1e-6)));
  for (Prepared& one : step.prepared()) {
    for (SlotReport& report : one.report.slots) report.samples = 0;
  }
  CHECK(step.Judge(MakeConfig()).action == StepAction::kSkip);  // no slot has samples, so no limit counts
}

TEST_CASE("the next step knows the norm of this one's gradient, infinity for one that is not finite",
          "[server][verdict]") {
  EditableJobConfig config = MakeConfig();
  config.optimizer.clip_norm = 1.0;
  CHECK(Step4({25.0, 144.0}, 2).Judge(config, 1).next.gradient_norm == 13.0);
  config.job.on_nonfinite = NonFinitePolicy::kSkip;
  for (const double bad : {kNotANumber, kInfinity}) {
    CHECK(Step4({25.0, bad}, 2).Judge(config).next.gradient_norm == kInfinity);
  }
}

TEST_CASE("a step whose shards got different hyper-parameters stops the job and names two of them",
          "[server][verdict]") {
  Step4 step({1.0, 1.0, 1.0}, 3);
  step.prepared()[0].report.hyper_hash = 0;  // a shard that got no push
  step.prepared()[1].report.hyper_hash = step.prepared()[2].report.hyper_hash = 77;
  CHECK(step.Judge(MakeConfig()).kind == Verdict::Kind::kCommit);
  step.prepared()[2].report.hyper_hash = 78;
  const Verdict verdict = step.Judge(MakeConfig());
  CHECK(verdict.kind == Verdict::Kind::kStop);
  CHECK(verdict.reason.find("step 4: the pushes to shards 1 and 2 came with different hyper-parameters") == 0);
}

TEST_CASE("the next step begins with the state that the program gave, also after a step that is left out",
          "[server][verdict]") {
  Step4 step({1.0, 1.0, 1.0}, 3);
  CHECK(step.Judge(MakeConfig()).next.program_state == "before");  // no slot gave one
  step.prepared()[1].report.program_state = step.prepared()[2].report.program_state = "after";
  step.prepared()[1].report.program_slot = 1;
  step.prepared()[2].report.program_slot = 2;
  CHECK(step.Judge(MakeConfig()).next.program_state == "after");
  EditableJobConfig skips = MakeConfig();
  skips.job.on_nonfinite = NonFinitePolicy::kSkip;
  Step4 bad({kNotANumber, 1.0}, 2);
  bad.prepared()[0].report.program_state = "after";
  const Verdict skipped = bad.Judge(skips);
  CHECK(skipped.action == StepAction::kSkip);
  CHECK(skipped.next.updates == 3);
  CHECK(skipped.next.program_state == "after");
  step.prepared()[2].report.program_state = "other";
  const Verdict stopped = step.Judge(MakeConfig());
  CHECK(stopped.kind == Verdict::Kind::kStop);
  CHECK(stopped.reason.find("step 4: slots 1 and 2 ended with different program states (5 and 5 bytes)") == 0);
}

TEST_CASE("a norm within the limit, or no limit, commits at once", "[server][verdict]") {
  EditableJobConfig config = MakeConfig();
  CHECK(Step4({25.0, 144.0}, 2).Judge(config).kind == Verdict::Kind::kCommit);
  config.optimizer.clip_norm = 14.0;
  CHECK(Step4({25.0, 144.0}, 2).Judge(config).kind == Verdict::Kind::kCommit);
  config.optimizer.clip_norm = 1.0;
  CHECK(Step4({0.0, 0.0}, 2).Judge(config).kind == Verdict::Kind::kCommit);
}

TEST_CASE("the norm is added in catalog order, whatever the number of shards", "[server][verdict]") {
  EditableJobConfig config = MakeConfig();
  config.optimizer.clip_norm = 1e-3;
  RandomStream random(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<double> squares;
    for (int i = 0; i < 17; ++i)
      squares.push_back(random.Unit() * std::pow(10.0, static_cast<double>(random.Below(16))));
    double sum = 0.0;
    for (double square : squares) sum += square;
    for (std::uint32_t shards : {1U, 2U, 3U, 5U}) {
      const Verdict verdict = Step4(squares, shards).Judge(config);
      REQUIRE(verdict.record.gradient_norm == std::sqrt(sum));
      REQUIRE(verdict.clip == static_cast<float>(1e-3 / (std::sqrt(sum) + 1e-6)));
    }
  }
}

TEST_CASE("a gradient that is not finite stops the job and names the first tensor, and the slots whose loss was not",
          "[server][verdict]") {
  for (double bad : {kNotANumber, kInfinity}) {
    Step4 step({1.0, bad, kNotANumber}, 2);
    step.prepared()[1].report.slots[0].loss_sum = kNotANumber;  // slot 1
    const Verdict verdict = step.Judge(MakeConfig());
    CHECK(verdict.kind == Verdict::Kind::kStop);
    CHECK(verdict.reason.find("\"t1\"") != std::string::npos);
    CHECK(verdict.reason.find("step 4") != std::string::npos);
    CHECK(verdict.suspects == std::vector<SlotIndex>{1});
  }
}

TEST_CASE("where the job says so, such a step is skipped: the step goes on, the updates do not", "[server][verdict]") {
  EditableJobConfig config = MakeConfig();
  config.job.on_nonfinite = NonFinitePolicy::kSkip;
  config.optimizer.clip_norm = 1.0;
  const Verdict verdict = Step4({1.0, kInfinity}, 2).Judge(config);
  CHECK(verdict.kind == Verdict::Kind::kCommit);
  CHECK(verdict.action == StepAction::kSkip);
  CHECK(verdict.next.updates == 3);
}

TEST_CASE("a step without samples is skipped", "[server][verdict]") {
  const Verdict verdict = Step4({0.0, 0.0}, 2, 0).Judge(MakeConfig());
  CHECK(verdict.kind == Verdict::Kind::kCommit);
  CHECK(verdict.action == StepAction::kSkip);
  CHECK(verdict.record.samples == 0);
  CHECK(verdict.record.loss == 0.0);
}

TEST_CASE("a verdict carries all that the next step needs", "[server][verdict]") {
  EditableJobConfig config = MakeConfig();
  config.schedule.kind = ScheduleKind::kLinear;
  const Verdict verdict = Step4({1.0}, 1).Judge(config);
  CHECK(verdict.next.updates == 4);
  CHECK(verdict.next.learning_rate == LearningRate(MakeScheduleRule(config.schedule), 0.5, 4, 10));
  CHECK(!verdict.next.stop);
  StepParameters wanted = ParametersOf(config, Step{5}, 4);
  wanted.program_state = "before";  // no slot of the step gave one
  wanted.gradient_norm = 1.0;
  CHECK(verdict.next == wanted);
  CHECK(ParametersOf(config, Step{9}, 9).stop == false);
  CHECK(ParametersOf(config, Step{10}, 10).stop);
  CHECK(ParametersOf(config, Step{10}, 2).stop);  // skipped steps are steps
}

TEST_CASE("the record is of the step that was decided", "[server][verdict]") {
  const Verdict verdict = Step4({9.0, 16.0}, 2).Judge(MakeConfig());
  CHECK(verdict.record.step == Step{4});
  CHECK(verdict.record.generation == Generation{2});
  CHECK(verdict.record.samples == 6);
  CHECK(verdict.record.loss == 0.5);  // (1 + 2 + 3) / 12
  CHECK(verdict.record.learning_rate == 0.25);
  CHECK(verdict.record.gradient_norm == 5.0);
  CHECK(!verdict.record.validation_loss);
}

TEST_CASE("losses and counts are added in slot order, and validation counts where there was any", "[server][verdict]") {
  std::vector<SlotReport> reports(3);
  const double losses[] = {1e16, 1.0, -1e16};
  for (SlotIndex i = 0; i < 3; ++i) {
    reports[i].slot = i;
    reports[i].samples = 1;
    reports[i].predictions = 1;
    reports[i].loss_sum = losses[i];
    reports[i].validation_loss_sum = 2.0;
    reports[i].validation_predictions = 4;
    reports[i].validation_correct = i;
  }
  const std::vector<SlotReport> mixed = {reports[2], reports[0], reports[1]};
  StepRecord a, b;
  AddSlotReports(reports, &a);
  AddSlotReports(mixed, &b);
  CHECK(a.loss == b.loss);
  CHECK(a.loss == (1e16 + 1.0 - 1e16) / 3.0);
  CHECK(a.validation_loss == 0.5);
  CHECK(a.validation_accuracy == 0.25);
}

TEST_CASE("a step has 32 metrics in all, those that most slots report", "[server][verdict]") {
  std::vector<SlotReport> reports(40);
  for (std::uint32_t i = 0; i < 40; ++i) {
    reports[i].slot = i;
    if (i < 2) {
      reports[i].metrics.push_back({"shared", 1.0, 1.0});
      continue;
    }
    for (int k = 0; k < 32; ++k) {  // names of its own, before "shared" in the alphabet; one of them many times
      reports[i].metrics.push_back({"a" + std::to_string(i) + "_" + std::to_string(i == 2 ? 0 : k), 1.0, 1.0});
    }
  }
  StepRecord record;
  AddSlotReports(reports, &record);
  CHECK(record.metrics.size() == kMetricsMax);
  CHECK(record.metrics.count("shared") == 1);
  CHECK(record.metrics_left_out == 1 + 1 + 37 * 32 - kMetricsMax);
  std::size_t bytes = 0;
  for (const auto& [name, value] : record.metrics) bytes += name.size();
  CHECK(bytes <= kMetricsMax * kMetricNameMax);

  StepRecord few;
  AddSlotReports({reports[0], reports[3]}, &few);  // 33 names
  CHECK(few.metrics.size() == kMetricsMax);
  CHECK(few.metrics_left_out == 1);
  CHECK(few.metrics.count("shared") == 0);  // each is reported by one slot: the last by name goes
}

TEST_CASE("metrics are added by name in slot order, and shown as sum over weight", "[server][verdict]") {
  std::vector<SlotReport> reports(3);
  const double sums[] = {1e16, 1.0, -1e16};
  for (SlotIndex i = 0; i < 3; ++i) {
    reports[i].slot = i;
    reports[i].metrics = {{"accuracy", sums[i], 1.0 + i}};
  }
  reports[1].metrics.push_back({"of_none", 5.0, 0.0});
  reports[2].metrics.push_back({"twice", 1.0, 1.0});
  reports[2].metrics.push_back({"twice", 2.0, 3.0});
  reports[2].metrics.push_back({"no \"name", 1.0, 1.0});  // from a shard that does not check
  StepRecord a, b;
  AddSlotReports({reports[2], reports[0], reports[1]}, &a);
  CHECK(a.metrics.size() == 3);
  CHECK(a.metrics.at("accuracy") == (1e16 + 1.0 - 1e16) / 6.0);
  CHECK(a.metrics.at("twice") == 0.75);
  CHECK(std::isnan(a.metrics.at("of_none")));
  AddSlotReports({SlotReport{}}, &b);
  CHECK(b.metrics.empty());
}

TEST_CASE("the learning rate that came with the pushes is the record's, from whichever shard has it",
          "[server][verdict]") {
  Step4 step({1.0, 1.0, 1.0}, 3);
  step.prepared()[0].report.learning_rate = 9.0;  // to be ignored: hyper_hash is 0
  step.prepared()[1].report.hyper_hash = 77;
  step.prepared()[1].report.learning_rate = 1e-3;
  CHECK(step.Judge(MakeConfig()).record.learning_rate == 1e-3);
  step.prepared()[1].report.hyper_hash = 0;
  CHECK(step.Judge(MakeConfig()).record.learning_rate == 0.25);  // the job file's
}

}  // namespace
}  // namespace capstan::server
