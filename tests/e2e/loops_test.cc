// Coordinator, shards and clients over real sockets, in one process: files and weights show what they committed.
#include <capstan/client.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <limits>
#include <optional>

#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job_config.h"
#include "common/data/safetensors.h"
#include "tests/catch.h"
#include "tests/common/base/flush_to_zero.h"
#include "tests/common/wire/transport_tools.h"
#include "tests/e2e/in_process_job.h"
#include "worker/client/client_base.h"

namespace capstan {
namespace {

using e2e::InProcessJob;

EditableJobConfig MakeConfig(std::uint32_t shards, std::uint32_t workers, Mode mode) {
  EditableJobConfig config;
  config.job.mode = mode;
  config.job.steps = 5;
  config.job.slots = 3;
  config.job.global_batch = 3;
  config.optimizer.kind = OptimizerKind::kSgd;
  config.optimizer.lr = 0.25;
  config.cluster.servers = shards;
  config.cluster.workers = workers;
  config.cluster.min_workers = workers;
  config.limits.join = 20;
  config.limits.stall = 20;
  return config;
}

// Declares a tensor of a block and a half, and a small tensor.
WorkerDescription Describe() {
  WorkerDescription description;
  description.tensors = {{"large", {3, 131072}}, {"small", {5}, InitialWeights::kOnes}};
  return description;
}

// Trains with gradients that are all `gradient_value`: each update lowers each weight by 0.25 * `gradient_value`.
Status Train(const std::string& coordinator, const std::string& name, float gradient_value = 1.0F) {
  ClientOptions options;
  options.coordinator = coordinator;
  options.worker = name;
  Result<std::unique_ptr<Client>> client = Client::Connect(options);
  CAPSTAN_RETURN_IF_ERROR(client.status());
  CAPSTAN_RETURN_IF_ERROR((*client)->Declare(Describe()));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (true) {
    Result<std::optional<Work>> work = (*client)->NextWork(deadline);
    CAPSTAN_RETURN_IF_ERROR(work.status());
    if (!*work) return {};
    for (std::uint32_t slot : (**work).slots) {
      float* gradient = (*client)->BeginSlot(slot, 1).value();
      if (Status status = (*client)->WaitWeights(0, 1, deadline); !status.ok()) break;
      std::fill_n(gradient, kBlockElements, std::numeric_limits<float>::quiet_NaN());  // not computed yet
      std::fill(gradient + kBlockElements, gradient + (*client)->element_count(), gradient_value);
      CAPSTAN_RETURN_IF_ERROR((*client)->GradientReadyFrom(0, kBlockElements));
      std::fill_n(gradient, kBlockElements, gradient_value);
      CAPSTAN_RETURN_IF_ERROR((*client)->GradientReady(0, 1));
      if (!(*client)->EndSlot(slot, {.loss_sum = 2.0, .predictions = 1}).ok()) break;
    }
  }
}

std::size_t LinesOf(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::size_t count = 0;
  while (std::getline(in, line)) ++count;
  return count;
}

void RunToTheEnd(InProcessJob& job, std::uint32_t workers) {
  std::vector<std::future<Status>> clients;
  for (std::uint32_t i = 0; i < workers; ++i) {
    clients.push_back(
        std::async(std::launch::async, [&job, i] { return Train(job.address(), "w" + std::to_string(i)); }));
  }
  for (std::future<Status>& client : clients) {
    const Status status = client.get();
    INFO(status.message());
    CHECK(status.ok());
  }
  REQUIRE(job.WaitForEnds(1 + job.shards.size()));
  INFO(job.coordinator->outcome().message());
  CHECK(job.coordinator->outcome().ok());
  for (const auto& shard : job.shards) CHECK(shard->outcome().ok());
}

void CheckFiles(const InProcessJob& job, float updates) {
  CHECK(LinesOf(job.folder.path() + "/metrics.jsonl") == job.config.job.steps);
  const Result<SafetensorsFile> file = ReadSafetensors(job.folder.path() + "/final.safetensors");
  INFO(file.status().message());
  REQUIRE(file.ok());
  REQUIRE(file->tensors.size() == 2);
  CHECK(file->tensors[0].name == "large");
  CHECK(file->tensors[0].shape == std::vector<std::uint64_t>{3, 131072});
  std::vector<float> values(file->data.size() / sizeof(float));
  std::memcpy(values.data(), file->data.data(), file->data.size());
  REQUIRE(values.size() == 3 * 131072 + 5);
  CHECK(values.front() == -updates * 0.25F);
  CHECK(values[300000] == -updates * 0.25F);
  CHECK(values.back() == 1.0F - updates * 0.25F);
}

TEST_CASE("a job over sockets commits its steps, leaves its weights and ends everywhere", "[e2e][sync]") {
  InProcessJob job(MakeConfig(2, 2, Mode::kSync));
  job.StartShard(0);
  job.StartShard(1);
  RunToTheEnd(job, 2);
  CheckFiles(job, 5);
  CHECK(job.coordinator->StatusJson().find("\"state\":\"finished\"") != std::string::npos);
}

// Returns how many pushes of the job had this outcome, as its shards count them.
double PushesThatWere(const std::string& outcome, const InProcessJob& job) {
  for (const monitoring::Family& family : job.registry.Read()) {
    if (family.name != "capstan_server_pushes_total") continue;
    for (const monitoring::Sample& sample : family.samples) {
      if (sample.labels == monitoring::Labels{{"outcome", outcome}}) return sample.value;
    }
  }
  return -1;
}

TEST_CASE("a worker that writes to a gradient after it has pushed it changes nothing", "[e2e][sync]") {
  constexpr std::size_t kElements = 100'000;
  EditableJobConfig config = MakeConfig(1, 1, Mode::kSync);
  config.job.slots = config.job.global_batch = 1;
  config.job.steps = 60;
  InProcessJob job(
      config, [](const Notice&) {}, e2e::Sockets::kLocal);
  job.StartShard(0);
  ClientOptions options;
  options.coordinator = job.address();
  options.worker = "hostile";
  std::atomic<bool> told{false};
  options.on_notice = [&told](const std::string& text) {
    if (text == "shard 0 refused a payload, which is sent again: block 0: the payload does not match its hash")
      told = true;
  };
  const std::unique_ptr<Client> client = Client::Connect(options).value();
  REQUIRE(client->Declare({.tensors = {{"t", {kElements}}}}).ok());
  while (const auto work = client->NextWork(Client::kNoDeadline).value()) {
    REQUIRE(client->WaitWeights(0, 0, Client::kNoDeadline).ok());
    CHECK(client->weights()[5] == -0.25F * static_cast<float>(work->step));
    const double corrupt = PushesThatWere("corrupt", job), staged = PushesThatWere("staged", job);
    float* const gradient = client->BeginSlot(0, 1).value();
    std::fill_n(gradient, kElements, 1.0F);
    REQUIRE(client->GradientReady(0, 0).ok());
    if (corrupt == 0) gradient[5] = 100.0F;  // in one of the steps this comes before the server copies it
    testing::Until([&] { return PushesThatWere("corrupt", job) > corrupt || PushesThatWere("staged", job) > staged; });
    gradient[5] = 1.0F;  // otherwise no push is ever right
    testing::Until([&] { return PushesThatWere("staged", job) > staged; });
    std::fill_n(gradient, kElements, 100.0F);  // the server has its own copy
    REQUIRE(client->EndSlot(0, {.loss_sum = 2.0, .predictions = 1}).ok());
  }
  REQUIRE(job.WaitForEnds(2));
  CHECK(job.coordinator->outcome().ok());
  CHECK(PushesThatWere("corrupt", job) > 0);
  CHECK(told);
  const SafetensorsFile file = ReadSafetensors(job.folder.path() + "/final.safetensors").value();
  std::vector<float> values(kElements);
  REQUIRE(file.data.size() == kElements * sizeof(float));
  std::memcpy(values.data(), file.data.data(), file.data.size());
  CHECK(values == std::vector<float>(kElements, -0.25F * 60));
}

// Returns the only client of a job, in its first round, with all weights. Its two tensors, "a" and "b", share a block.
std::unique_ptr<Client> InFirstRound(const InProcessJob& job) {
  ClientOptions options;
  options.coordinator = job.address();
  options.worker = "w0";
  std::unique_ptr<Client> client = Client::Connect(options).value();
  WorkerDescription description;
  description.tensors = {{"a", {4}}, {"b", {4}}};
  REQUIRE(client->Declare(description).ok());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  REQUIRE(client->NextWork(deadline).value());
  REQUIRE(client->WaitWeights(0, 1, deadline).ok());
  return client;
}

TEST_CASE("a tensor whose gradient is called final twice in a slot is an error that names it", "[e2e][sync]") {
  InProcessJob job(MakeConfig(1, 1, Mode::kSync));
  job.StartShard(0);
  const std::unique_ptr<Client> client = InFirstRound(job);
  float* const gradient = client->BeginSlot(0, 1).value();
  std::fill_n(gradient, client->element_count(), 1.0F);
  REQUIRE(client->GradientReady(1, 1).ok());
  const Status twice = client->GradientReady(1, 1);
  CHECK(twice.code() == Code::kInvalid);
  CHECK_THAT(twice.message(), Catch::Contains("GradientReady(1, 1): tensor \"b\" is named twice in one slot"));
  CHECK(client->EndSlot(0, {.loss_sum = 2.0, .predictions = 1}).code() == Code::kInvalid);
}

TEST_CASE("elements of a gradient that cannot be called final are an error that names them", "[e2e][sync]") {
  const auto error_of = [](std::uint64_t first, std::uint64_t second) {
    InProcessJob job(MakeConfig(1, 1, Mode::kSync));
    job.StartShard(0);
    const std::unique_ptr<Client> client = InFirstRound(job);
    float* const gradient = client->BeginSlot(0, 1).value();
    std::fill_n(gradient, client->element_count(), 1.0F);
    REQUIRE(client->GradientReadyFrom(1, first).ok());
    const Status wrong = client->GradientReadyFrom(1, second);
    CHECK(wrong.code() == Code::kInvalid);
    return wrong.message();
  };
  CHECK_THAT(error_of(2, 2), Catch::Contains("GradientReadyFrom(1, 2): tensor \"b\" is final from element 2 on"));
  CHECK_THAT(error_of(2, 3), Catch::Contains("GradientReadyFrom(1, 3): tensor \"b\" is final from element 2 on"));
  CHECK_THAT(error_of(2, 4),
             Catch::Contains("GradientReadyFrom(1, 4): tensor \"b\" has 4 elements, so there is no element 4"));
}

TEST_CASE("after a failure a client gives no weights, even if they have arrived", "[e2e][sync]") {
  InProcessJob job(MakeConfig(1, 1, Mode::kSync));
  job.StartShard(0);
  const std::unique_ptr<Client> client = InFirstRound(job);
  const Status failure = client->BeginSlot(7, 1).status();
  REQUIRE(failure.code() == Code::kInvalid);
  CHECK(client->WaitWeights(0, 1, std::chrono::steady_clock::now()).message() == failure.message());
}

TEST_CASE("servers and workers may come before their job has enough of them", "[e2e][sync]") {
  InProcessJob job(MakeConfig(3, 1, Mode::kSync));  // more shards than blocks
  std::future<Status> client = std::async(std::launch::async, [&job] { return Train(job.address(), "w0"); });
  for (ShardIndex shard = 3; shard-- > 0;) job.StartShard(shard);
  CHECK(client.get().ok());
  REQUIRE(job.WaitForEnds(4));
  CheckFiles(job, 5);
}

TEST_CASE("an async job over sockets applies every slot's every push", "[e2e][async]") {
  InProcessJob job(MakeConfig(2, 2, Mode::kAsync));
  job.StartShard(0);
  job.StartShard(1);
  RunToTheEnd(job, 2);
  CheckFiles(job, 15);
}

TEST_CASE("a host program that flushes denormal numbers to zero pushes the same bits", "[e2e]") {
  std::vector<float> firsts;
  for (const bool flushes : {false, true}) {
    InProcessJob job(MakeConfig(1, 1, Mode::kSync));
    job.StartShard(0);
    const Status status = std::async(std::launch::async, [&] {
                            std::optional<FlushToZero> host;
                            if (flushes) host.emplace();
                            return Train(job.address(), "w", 1e-39F);
                          }).get();
    INFO(status.message());
    REQUIRE(status.ok());
    REQUIRE(job.WaitForEnds(2));
    const auto weights = ReadSafetensors(job.folder.path() + "/final.safetensors");
    REQUIRE(weights.ok());
    std::memcpy(&firsts.emplace_back(), weights->data.data(), sizeof(float));
  }
  CHECK(firsts[0] < 0);
  CHECK(firsts[0] == firsts[1]);
}

// Stands for a sum over a machine's workers that never comes. At the `looks_max`-th call of Done, the process is asked
// to stop.
class EndlessSums final : public client::MachineReduce {
 public:
  EndlessSums(int looks_max, bool* is_asked) : looks_max_(looks_max), is_asked_(*is_asked) {}

  void Begin(const Catalog&, Encoding, SendCommand) override {}
  void Stop() override {}
  void TakeGroup(const session::Session::MachineGrouping&) override {}
  void TakeStepDone(const session::Session::StepDone&) override {}
  session::PushWay BeginRound(Round) override { return session::PushWay::kDeferred; }
  void BlockReady(BlockIndex) override {}
  bool Done(Deadline) override {
    is_asked_ = ++looks_ >= looks_max_;
    return false;
  }
  void GiveUpRound() override {}
  Counters counters() const override { return {}; }

 private:
  const int looks_max_;
  bool& is_asked_;
  int looks_ = 0;
};

TEST_CASE("a worker that waits for its machine's sums ends its round when it is asked to stop", "[e2e][machine]") {
  InProcessJob job(MakeConfig(1, 1, Mode::kSync));
  job.StartShard(0);
  ClientOptions options;
  options.coordinator = job.address();
  options.worker = "w";
  Result<client::Connection> connection = client::Connect(options);
  REQUIRE(connection.ok());
  bool is_asked = false;
  int times_asked = 0;
  const std::unique_ptr<Client> client = client::CreateParameterServerClient(
      std::move(*connection), std::make_unique<EndlessSums>(3, &is_asked), [&] { return ++times_asked, is_asked; });
  REQUIRE(client->Declare(Describe()).ok());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const std::uint32_t last = client->NextWork(deadline).value()->slots.back();
  for (std::uint32_t slot = 0; slot <= last; ++slot) {
    float* gradient = client->BeginSlot(slot, 1).value();
    REQUIRE(client->WaitWeights(0, 1, deadline).ok());
    std::fill_n(gradient, client->element_count(), 1.0F);
    const Status ended = client->EndSlot(slot, {.loss_sum = 2.0, .predictions = 1});
    INFO(ended.message());
    CHECK(ended.code() == (slot == last ? Code::kStale : Code::kOk));
    CHECK((ended.message() == "asked to stop") == (slot == last));
    CHECK(times_asked == (slot == last ? 3 : 0));
  }
}

TEST_CASE("a shard with another job file is refused and ends", "[e2e]") {
  InProcessJob job(MakeConfig(1, 1, Mode::kSync));
  job.StartShard(0, 12345);
  REQUIRE(job.WaitForEnds(1));
  CHECK(job.shards[0]->outcome().code() == Code::kRefused);
  CHECK(job.shards[0]->outcome().message().find("another job file") != std::string::npos);
}

TEST_CASE("the second of two shards with one index is refused while the first one lives", "[e2e]") {
  InProcessJob job(MakeConfig(1, 1, Mode::kSync));
  job.StartShard(0);
  job.StartShard(0);
  REQUIRE(job.WaitForEnds(1));
  const bool first_ended = job.shards[0]->ended(), second_ended = job.shards[1]->ended();
  REQUIRE(first_ended != second_ended);
  const Status& outcome = job.shards[first_ended ? 0 : 1]->outcome();
  CHECK(outcome.code() == Code::kRefused);
  CHECK(outcome.message().find("already running at") != std::string::npos);
}

TEST_CASE("a job that misses a server fails by its deadline and says which", "[e2e]") {
  EditableJobConfig config = MakeConfig(2, 1, Mode::kSync);
  config.limits.join = 0.5;
  config.limits.report = 0.1;
  InProcessJob job(config);
  job.StartShard(0);
  REQUIRE(job.WaitForEnds(2));
  CHECK(job.coordinator->outcome().message().find("server 1 (never seen)") != std::string::npos);
}

}  // namespace
}  // namespace capstan
