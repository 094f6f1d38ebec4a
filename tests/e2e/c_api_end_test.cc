// The codes in C, and a client in C that is freed while its background thread still writes the weights of a round.
#include <capstan/capstan.h>

#include <array>
#include <string>

#include "common/base/status.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job/optimizer_section.h"
#include "tests/catch.h"
#include "tests/e2e/in_process_job.h"
#include "tests/patience.h"

namespace capstan {
namespace {

using e2e::InProcessJob;

EditableJobConfig MakeJob() {
  EditableJobConfig config;
  config.model.kind = ModelKind::kClient;
  config.job.steps = config.job.slots = config.job.global_batch = 1;
  config.optimizer.kind = OptimizerKind::kSgd;
  config.cluster.workers = config.cluster.min_workers = 1;
  config.limits.join = config.limits.stall = 20;
  return config;
}

// Connects a client to the job, with one tensor of 48 MiB.
capstan_client* ConnectWithLargeTensor(const InProcessJob& job) {
  const std::string coordinator = job.address();
  capstan_options options{};
  options.size = sizeof options;
  options.coordinator = coordinator.c_str();
  options.worker = "w";
  capstan_client* client = nullptr;
  REQUIRE(capstan_connect(&options, &client, nullptr, 0) == CAPSTAN_OK);
  constexpr std::array<std::int64_t, 2> kShape = {48, 262144};
  capstan_tensor tensor{};
  tensor.size = sizeof tensor;
  tensor.name = "large", tensor.shape = kShape.data(), tensor.dimensions = kShape.size();
  capstan_description description{};
  description.size = sizeof description;
  description.tensors = &tensor, description.tensor_count = 1;
  REQUIRE(capstan_declare(client, &description) == CAPSTAN_OK);
  return client;
}

}  // namespace

TEST_CASE("a client may be ended in the middle of a round, while weights are still coming", "[e2e][c]") {
  int still_coming = 0;
  for (int i = 0; i < 100 && still_coming < 10; ++i) {
    InProcessJob job(MakeJob());
    job.StartShard(0);
    capstan_client* client = ConnectWithLargeTensor(job);
    capstan_work work{};
    work.size = sizeof work;
    REQUIRE(capstan_next_work(client, 60 * testing::Patience(), &work) == CAPSTAN_OK);
    REQUIRE(work.done == 0);
    still_coming += capstan_wait_weights(client, 0, 0, 0) == CAPSTAN_TIMEOUT ? 1 : 0;
    capstan_free(client);
  }
  CHECK(still_coming == 10);
}

TEST_CASE("codes in C have the names and numbers of those in C++", "[c]") {
  CHECK(CAPSTAN_REFUSED == static_cast<int>(Code::kRefused));
  CHECK(CAPSTAN_STALE == static_cast<int>(Code::kStale));
  for (int code = CAPSTAN_OK; code <= CAPSTAN_REFUSED; ++code) {
    CHECK(capstan_code_name(code) == std::string(CodeName(static_cast<Code>(code))));
  }
  CHECK(std::string(capstan_code_name(99)) == "unknown");
  CHECK(capstan_abi_version() == CAPSTAN_ABI_VERSION);
}

}  // namespace capstan
