// A tensor that is a statistic (observed, not trained) and declared in C, by structs with and without that field; and
// the output of a client in C.
#include <capstan/capstan.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job/optimizer_section.h"
#include "tests/catch.h"
#include "tests/e2e/in_process_job.h"
#include "tests/patience.h"

namespace capstan::statistics_in_c {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using e2e::InProcessJob;

const double kPatience = 60 * testing::Patience();

EditableJobConfig MakeJob() {
  EditableJobConfig config;
  config.model.kind = ModelKind::kClient;
  config.job.steps = 2;
  config.job.slots = config.job.global_batch = 1;
  config.optimizer.kind = OptimizerKind::kSgd;
  config.optimizer.lr = 0.25;
  config.cluster.workers = config.cluster.min_workers = 1;
  config.limits.join = config.limits.stall = 20;
  return config;
}

capstan_options OptionsFor(const std::string& coordinator) {
  capstan_options options{};
  options.size = sizeof options;
  options.coordinator = coordinator.c_str();
  options.worker = "w";
  return options;
}

capstan_client* Connect(const capstan_options& options) {
  capstan_client* client = nullptr;
  REQUIRE(capstan_connect(&options, &client, nullptr, 0) == CAPSTAN_OK);
  return client;
}

// Declares two tensors: five elements, observed if `statistic` is 1, and one trained element. The structs have `bytes`
// bytes.
capstan_code Declare(capstan_client* client, std::uint64_t statistic = 0, std::size_t bytes = sizeof(capstan_tensor)) {
  const std::int64_t five = 5, one = 1;
  std::array<capstan_tensor, 2> tensors{};
  for (capstan_tensor& tensor : tensors) tensor.size = bytes, tensor.dimensions = 1;
  tensors[0].name = "seen", tensors[0].shape = &five, tensors[0].statistic = statistic;
  tensors[1].name = "trained", tensors[1].shape = &one;
  std::vector<std::byte> rows(2 * bytes);  // adjacent, as in a program with such structs
  for (std::size_t i = 0; i < 2; ++i) std::memcpy(rows.data() + i * bytes, &tensors.at(i), bytes);
  capstan_description description{};
  description.size = sizeof description;
  description.tensors = reinterpret_cast<const capstan_tensor*>(rows.data());
  description.tensor_count = 2;
  return capstan_declare(client, &description);
}

capstan_work NextWork(capstan_client* client) {
  capstan_work work{};
  work.size = sizeof work;
  REQUIRE(capstan_next_work(client, kPatience, &work) == CAPSTAN_OK);
  REQUIRE(capstan_wait_weights(client, 0, 1, kPatience) == CAPSTAN_OK);
  return work;
}

// Returns one weight of each tensor, after one step of gradients that are 1.
std::array<float, 2> AfterOneStep(std::uint64_t statistic, std::size_t bytes) {
  InProcessJob job(MakeJob());
  job.StartShard(0);
  const std::string coordinator = job.address();
  capstan_client* client = Connect(OptionsFor(coordinator));
  REQUIRE(Declare(client, statistic, bytes) == CAPSTAN_OK);
  REQUIRE(NextWork(client).step == 0);
  float* gradient = nullptr;
  REQUIRE(capstan_begin_slot(client, 0, 1, &gradient) == CAPSTAN_OK);
  std::fill_n(gradient, 6, 1.0F);
  capstan_result result{};
  result.size = sizeof result;
  REQUIRE(capstan_end_slot(client, 0, &result) == CAPSTAN_OK);
  REQUIRE(NextWork(client).step == 1);
  const float* weights = nullptr;
  REQUIRE(capstan_weights(client, &weights) == CAPSTAN_OK);
  const std::array<float, 2> after = {weights[4], weights[5]};
  capstan_free(client);
  return after;
}

// Collects this process's output on stderr.
class StandardError {
 public:
  StandardError() : before_(dup(STDERR_FILENO)), file_(std::tmpfile()) {
    REQUIRE(file_ != nullptr);
    REQUIRE(dup2(fileno(file_), STDERR_FILENO) >= 0);
  }
  ~StandardError() {
    dup2(before_, STDERR_FILENO);
    close(before_);
    std::fclose(file_);
  }
  StandardError(const StandardError&) = delete;
  StandardError& operator=(const StandardError&) = delete;

  std::string text() const {
    std::array<char, 4096> bytes{};
    const ssize_t size = pread(fileno(file_), bytes.data(), bytes.size(), 0);
    return {bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
  }

 private:
  int before_;
  std::FILE* file_;
};

void OnNotice(void* noticed, const char* text) {
  if (std::strstr(text, "waiting 5 s") != nullptr) *static_cast<std::atomic<bool>*>(noticed) = true;
}

}  // namespace

TEST_CASE("a statistic in C goes a tenth of the way to what the slots saw, and no optimizer moves it", "[e2e][c]") {
  CHECK(AfterOneStep(1, sizeof(capstan_tensor)) == std::array<float, 2>{0.1F, -0.25F});
  CHECK(AfterOneStep(0, sizeof(capstan_tensor)) == std::array<float, 2>{-0.25F, -0.25F});
}

TEST_CASE("the tensor of a program that knows no statistics is a trained one", "[e2e][c]") {
  CHECK(capstan_abi_version() >= 3);
  CHECK(AfterOneStep(1, offsetof(capstan_tensor, statistic)) == std::array<float, 2>{-0.25F, -0.25F});
}

TEST_CASE("a statistic in C is 0 or 1", "[e2e][c]") {
  InProcessJob job(MakeJob());
  const std::string coordinator = job.address();
  capstan_client* client = Connect(OptionsFor(coordinator));
  CHECK(Declare(client, 2) == CAPSTAN_INVALID);
  CHECK_THAT(capstan_last_error(client), Contains("tensor \"seen\": statistic is 2; it is 1, or 0"));
  capstan_free(client);
}

TEST_CASE("notices in C go to stderr, unless the program takes them", "[e2e][c]") {
  InProcessJob job(MakeJob());  // without a shard: a client that wants work waits, and prints it
  const std::string coordinator = job.address();
  capstan_options options = OptionsFor(coordinator);
  capstan_work work{};
  work.size = sizeof work;
  std::string taken, printed;
  for (const bool takes : {true, false}) {
    std::atomic<bool> noticed = false;
    options.context = &noticed;
    options.on_notice = takes ? OnNotice : nullptr;
    const StandardError error;
    capstan_client* client = Connect(options);
    REQUIRE(Declare(client) == CAPSTAN_OK);
    REQUIRE(capstan_next_work(client, 0, &work) == CAPSTAN_TIMEOUT);
    for (int i = 0; i < 10 * kPatience && !noticed && error.text().empty(); ++i) {
      REQUIRE(capstan_next_work(client, 0.1, &work) == CAPSTAN_TIMEOUT);
    }
    capstan_free(client);
    CHECK(noticed == takes);
    (takes ? taken : printed) = error.text();
  }
  CHECK(taken.empty());
  CHECK_THAT(printed, StartsWith("capstan: waiting 5 s for ") && EndsWith("\n"));
}

}  // namespace capstan::statistics_in_c
