// A worker and its shards in a job with 16-bit numbers exchange about half the bytes of the same job in fp32.
#include <capstan/capstan.h>
#include <capstan/client.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "common/config/job/cluster_section.h"
#include "common/config/job/data_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job/worker_section.h"
#include "common/config/job_config.h"
#include "common/data/number16.h"
#include "tests/catch.h"
#include "tests/e2e/in_process_job.h"

namespace capstan {
namespace {

using e2e::InProcessJob;

constexpr std::uint64_t kSteps = 4;

EditableJobConfig MakeConfig(Precision precision) {
  EditableJobConfig config;
  config.job.steps = kSteps;
  config.job.slots = config.job.global_batch = 1;
  config.data.kind = DataKind::kSynthetic;
  config.model.kind = ModelKind::kMlp;
  config.worker.precision = precision;
  config.optimizer.kind = OptimizerKind::kSgd;
  config.optimizer.lr = 0.5;
  config.cluster.servers = 2;
  config.cluster.workers = config.cluster.min_workers = 1;
  config.limits.join = config.limits.stall = 60;
  return config;
}

// Declares a tensor of three blocks, and a statistic.
WorkerDescription Describe() {
  WorkerDescription description;
  description.tensors = {{"large", {3, 262144}}};
  description.tensors.push_back({.name = "mean", .shape = {5}, .weight_decay = false, .statistic = true});
  return description;
}

struct Trained {
  ClientCounters counters;
  std::vector<float> weights;  // the first one of each step
  float mean = -1.0F;          // at the last step
};

// Trains by gradient descent with rate 1/2 on 1/2 (w - 1)^2; the statistic observes 2.
Trained Train(Precision precision) {
  InProcessJob job(MakeConfig(precision));
  job.StartShard(0);
  job.StartShard(1);
  std::unique_ptr<Client> client =
      std::move(Client::Connect({.coordinator = job.address(), .worker = "w", .on_notice = {}})).value();
  REQUIRE(client->Declare(Describe()).ok());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  Trained trained;
  for (;;) {
    Result<std::optional<Work>> work = client->NextWork(deadline);
    REQUIRE(work.ok());
    if (!*work) break;
    REQUIRE(client->WaitWeights(0, 1, deadline).ok());
    const std::uint16_t* const narrow = client->narrow_weights();
    REQUIRE((narrow != nullptr) == (precision != Precision::kFp32));
    const float weight = precision == Precision::kFp32   ? client->weights()[0]
                         : precision == Precision::kBf16 ? Widen(Bf16{narrow[0]})
                                                         : Widen(Half{narrow[0]});
    trained.weights.push_back(weight);
    trained.mean = client->weights()[client->element_count() - 1];
    float* const gradient = client->BeginSlot(0, 1).value();
    std::fill_n(gradient, client->element_count() - 5, (weight - 1.0F) * (**work).loss_scale);
    std::fill_n(gradient + client->element_count() - 5, 5, 2.0F);
    REQUIRE(client->GradientReady(0, 1).ok());
    REQUIRE(client->EndSlot(0, {.loss_sum = 1.0, .predictions = 1}).ok());
  }
  do {  // they are published a little later
    trained.counters = client->counters();
  } while (
      (trained.counters.payload_messages_in < 4 * (kSteps + 1) || trained.counters.payload_messages_out < 4 * kSteps) &&
      std::chrono::steady_clock::now() < deadline);
  REQUIRE(trained.counters.payload_messages_out == 4 * kSteps);
  return trained;
}

TEST_CASE("16-bit numbers train the same job in half the bytes, statistics in fp32", "[e2e][encoding]") {
  const Trained wide = Train(Precision::kFp32);
  REQUIRE(wide.weights.size() == kSteps);
  constexpr std::uint64_t kMessages = 4 * (kSteps + 1);  // the last version is marked as the last
  CHECK(wide.counters.payload_messages_in == kMessages);
  for (const Precision precision : {Precision::kBf16, Precision::kFp16}) {
    const Trained narrow = Train(precision);
    // The weights are 0, 1/2, 3/4, 7/8, which 16 bits hold exactly. In fp16 the first gradient times the loss scale
    // 65536 overflows, so this step is skipped.
    const std::vector<float> expected =
        precision == Precision::kBf16 ? std::vector<float>{0, 0.5, 0.75, 0.875} : std::vector<float>{0, 0, 0.5, 0.75};
    CHECK(narrow.weights == expected);
    const double observed = precision == Precision::kBf16 ? 2 * (1 - std::pow(0.9, 3)) : 2 * (1 - std::pow(0.9, 2));
    CHECK(narrow.mean == Approx(observed).epsilon(1e-6));
    const auto ratio = [](std::uint64_t part, std::uint64_t whole) {
      return static_cast<double>(part) / static_cast<double>(whole);
    };
    const double out = ratio(narrow.counters.payload_bytes_out + narrow.counters.header_bytes_out,
                             wide.counters.payload_bytes_out + wide.counters.header_bytes_out);
    const double in = ratio(narrow.counters.payload_bytes_in + narrow.counters.header_bytes_in,
                            wide.counters.payload_bytes_in + wide.counters.header_bytes_in);
    INFO("out " << out << ", in " << in);
    CHECK((out >= 0.499 && out <= 0.51));
    // Weights of the skipped step that were sent speculatively, before the decision, are sent once more.
    const std::uint64_t again = precision == Precision::kFp16 ? 4 : 0;
    CHECK(narrow.counters.payload_messages_in >= kMessages);
    CHECK(narrow.counters.payload_messages_in <= kMessages + again);
    CHECK(in >= 0.499);
    CHECK(in <= 0.51 * ratio(kMessages + again, kMessages));
  }
}

TEST_CASE("without global steps a gradient that 16 bits cannot hold is refused before it leaves", "[e2e][encoding]") {
  EditableJobConfig config = MakeConfig(Precision::kBf16);
  config.job.mode = Mode::kAsync;
  InProcessJob job(config);
  job.StartShard(0);
  job.StartShard(1);
  std::unique_ptr<Client> client =
      std::move(Client::Connect({.coordinator = job.address(), .worker = "w", .on_notice = {}})).value();
  REQUIRE(client->Declare(Describe()).ok());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  REQUIRE(client->NextWork(deadline).ok());
  float* const gradient = client->BeginSlot(0, 1).value();
  std::fill_n(gradient, client->element_count(), 0.0F);
  gradient[7] = std::numeric_limits<float>::max();  // finite, and rounds to infinity
  const Status status = client->GradientReady(0, 1);
  CHECK(status.code() == Code::kInvalid);
  CHECK_THAT(status.message(), Catch::Contains("not finite"));
}

TEST_CASE("a job whose numbers have 16 bits is not for programs in C, which are told so", "[e2e][encoding][c]") {
  EditableJobConfig config = MakeConfig(Precision::kBf16);
  config.model.kind = ModelKind::kMlp;
  config.data.kind = DataKind::kSynthetic;
  InProcessJob job(config);
  const std::string coordinator = job.address();
  capstan_options options{};
  options.size = sizeof options, options.coordinator = coordinator.c_str(), options.worker = "c";
  capstan_client* client = nullptr;
  std::array<char, 256> error{};
  REQUIRE(capstan_connect(&options, &client, error.data(), error.size()) == CAPSTAN_OK);
  const std::array<std::int64_t, 1> shape = {5};
  capstan_tensor tensor{};
  tensor.size = sizeof tensor, tensor.name = "w", tensor.shape = shape.data(), tensor.dimensions = 1;
  capstan_description description{};
  description.size = sizeof description, description.tensors = &tensor, description.tensor_count = 1;
  CHECK(capstan_declare(client, &description) == CAPSTAN_UNSUPPORTED);
  CHECK_THAT(capstan_last_error(client), Catch::Contains("16 bits") && Catch::Contains("model.kind = \"client\""));
  capstan_free(client);
}

}  // namespace
}  // namespace capstan
