// The client in plain C against a job in this process: its results, and its answers to invalid calls.
#include <capstan/capstan.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <functional>
#include <future>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "common/config/job/sections.h"
#include "tests/catch.h"
#include "tests/e2e/in_process_job.h"
#include "tests/patience.h"

namespace capstan {
namespace {

using Catch::Matchers::Contains;
using e2e::InProcessJob;

const double kPatience = 60 * testing::Patience();

EditableJobConfig MakeConfig(std::uint32_t workers = 1) {
  EditableJobConfig config;
  config.model.kind = ModelKind::kClient;
  config.job.steps = 5;
  config.job.slots = 3;
  config.job.global_batch = 3;
  config.optimizer.kind = OptimizerKind::kSgd;
  config.optimizer.lr = 0.25;
  config.cluster.workers = config.cluster.min_workers = workers;
  config.limits.join = 20;
  config.limits.stall = 20;
  return config;
}

capstan_options OptionsFor(const char* coordinator, const char* worker) {
  capstan_options options{};
  options.size = sizeof options;
  options.coordinator = coordinator;
  options.worker = worker;
  return options;
}

capstan_client* Connect(const InProcessJob& job, const char* worker) {
  const std::string coordinator = job.address();
  const capstan_options options = OptionsFor(coordinator.c_str(), worker);
  capstan_client* client = nullptr;
  std::array<char, 256> error{};
  const capstan_code code = capstan_connect(&options, &client, error.data(), error.size());
  INFO(error.data());
  REQUIRE(code == CAPSTAN_OK);
  return client;
}

enum class Groups { kJobFile, kOneEach };

capstan_code Declare(capstan_client* client, std::int32_t initial = CAPSTAN_ZEROS, Groups groups = Groups::kJobFile,
                     const float* given = nullptr) {
  constexpr std::array<std::int64_t, 2> kLarge = {3, 131072}, kSmall = {5, 1};
  std::array<capstan_tensor, 2> tensors{};
  for (capstan_tensor& tensor : tensors) tensor.size = sizeof tensor;
  tensors[0].name = "large", tensors[0].shape = kLarge.data(), tensors[0].dimensions = 2;
  tensors[1].name = "small", tensors[1].shape = kSmall.data(), tensors[1].dimensions = 1;
  tensors[1].initial = initial;
  if (groups == Groups::kOneEach) tensors[0].group = 1, tensors[1].group = 2;
  capstan_description description{};
  description.size = sizeof description;
  description.tensors = tensors.data();
  description.tensor_count = tensors.size();
  description.given = given;
  return capstan_declare(client, &description);
}

// Sets the learning rates of the two groups of tensors.
capstan_code SetRates(capstan_client* client, double first, double second) {
  std::array<capstan_hyper_parameters, 2> groups{};
  for (capstan_hyper_parameters& group : groups) group.size = sizeof group;
  groups[0].learning_rate = first;
  groups[1].learning_rate = second;
  return capstan_set_hyper_parameters(client, groups.data(), groups.size());
}

capstan_result OneSample() {
  capstan_result result{};
  result.size = sizeof result;
  result.loss_sum = 2.0;
  result.predictions = 1;
  return result;
}

capstan_code RunSlot(capstan_client* client, std::uint32_t slot) {
  float* gradient = nullptr;
  std::uint64_t count = 0;
  capstan_code code = capstan_begin_slot(client, slot, 1, &gradient);
  if (code == CAPSTAN_OK) code = capstan_element_count(client, &count);
  if (code == CAPSTAN_OK) code = capstan_wait_weights(client, 0, 1, kPatience);
  if (code != CAPSTAN_OK) return code;
  std::fill_n(gradient, count, 1.0F);
  code = capstan_gradient_ready_from(client, 1, 1);
  if (code == CAPSTAN_OK) code = capstan_gradient_ready(client, 1, 1);
  const capstan_result result = OneSample();
  return code == CAPSTAN_OK ? capstan_end_slot(client, slot, &result) : code;
}

// Computes rounds until the job ends. `second_rate`: the learning rate of the second of two groups of tensors. Returns
// the last code.
capstan_code Train(capstan_client* client, std::optional<double> second_rate = std::nullopt) {
  capstan_work work{};
  work.size = sizeof work;
  capstan_code code = CAPSTAN_OK;
  while (code == CAPSTAN_OK || code == CAPSTAN_STALE) {
    code = capstan_next_work(client, -1, &work);
    if (code != CAPSTAN_OK || work.done != 0) return code;
    if (second_rate) code = SetRates(client, 0.5, *second_rate);
    for (std::size_t i = 0; i < work.slot_length && code == CAPSTAN_OK; ++i) code = RunSlot(client, work.slots[i]);
  }
  return code;
}

constexpr std::size_t kElements = 3 * 131072 + 5;

// A client in its first round, in a job of one worker and one shard.
struct InRound {
  explicit InRound(Groups groups = Groups::kJobFile) {
    job.StartShard(0);
    client = Connect(job, "w");
    REQUIRE(Declare(client, CAPSTAN_ZEROS, groups) == CAPSTAN_OK);
    work.size = sizeof work;
    REQUIRE(capstan_next_work(client, kPatience, &work) == CAPSTAN_OK);
    REQUIRE(work.done == 0);
  }
  ~InRound() { capstan_free(client); }
  std::string error() const { return capstan_last_error(client); }
  capstan_code Begin(std::uint32_t slot) { return capstan_begin_slot(client, slot, 1, &gradient); }
  capstan_code End(std::uint32_t slot) {
    const capstan_result result = OneSample();
    return capstan_end_slot(client, slot, &result);
  }

  InProcessJob job{MakeConfig()};
  capstan_client* client = nullptr;
  capstan_work work{};
  float* gradient = nullptr;
};

// Ends slot 0 with one metric of this name.
capstan_code EndWith(InRound& round, const char* name) {
  const capstan_metric metric = {sizeof metric, name, 1.0, 1.0};
  capstan_result result = OneSample();
  result.metrics = &metric, result.metric_count = 1;
  return capstan_end_slot(round.client, 0, &result);
}

// Returns the result of `call` in a child of this process. The child ends without cleanup.
template <class Call>
int InChild(const Call& call) {
  const pid_t child = fork();
  if (child == 0) _exit(call());
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("two clients in C, in one process, train a job to its end", "[e2e][c]") {
  InProcessJob job(MakeConfig(2));
  job.StartShard(0);
  std::array<capstan_client*, 2> clients = {Connect(job, "w0"), Connect(job, "w1")};
  std::array<std::future<capstan_code>, 2> ends;
  for (std::size_t i = 0; i < 2; ++i) {
    REQUIRE(Declare(clients[i]) == CAPSTAN_OK);
    ends[i] = std::async(std::launch::async, [client = clients[i]] { return Train(client); });
  }
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(ends[i].get() == CAPSTAN_OK);
    INFO(capstan_last_error(clients[i]));
  }
  REQUIRE(job.WaitForEnds(2));
  CHECK(job.coordinator->outcome().ok());
  const float* weights = nullptr;
  REQUIRE(capstan_weights(clients[0], &weights) == CAPSTAN_OK);
  CHECK(weights[0] == -4 * 0.25F);  // from the last round: no worker computes with the version after it
  capstan_counters counters{};
  counters.size = sizeof counters;
  REQUIRE(capstan_read_counters(clients[0], &counters) == CAPSTAN_OK);
  CHECK(counters.payload_bytes_in >= 5 * 3 * 131072 * sizeof(float));
  CHECK(counters.decode_errors == 0);
  for (capstan_client* client : clients) capstan_free(client);
}

TEST_CASE("first weights given in C are one client's, and those of the first round", "[e2e][c][given]") {
  InProcessJob job(MakeConfig(2));
  job.StartShard(0);
  std::array<capstan_client*, 2> clients = {Connect(job, "w0"), Connect(job, "w1")};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::vector<float> given(kElements, 10.0F * static_cast<float>(i + 1));  // copied, and gone
    REQUIRE(Declare(clients[i], CAPSTAN_GIVEN, Groups::kJobFile, given.data()) == CAPSTAN_OK);
  }
  capstan_work work{};
  work.size = sizeof work;
  REQUIRE(capstan_next_work(clients[0], kPatience, &work) == CAPSTAN_OK);
  CHECK(work.step == 0);
  REQUIRE(capstan_wait_weights(clients[0], 0, 1, kPatience) == CAPSTAN_OK);
  const float* weights = nullptr;
  REQUIRE(capstan_weights(clients[0], &weights) == CAPSTAN_OK);
  CHECK(weights[0] == 0.0F);  // not given
  const float first = weights[kElements - 5];
  CHECK((first == 10.0F || first == 20.0F));
  CHECK(std::all_of(weights + kElements - 5, weights + kElements, [&](float weight) { return weight == first; }));
  for (capstan_client* client : clients) capstan_free(client);
}

TEST_CASE("a round says what it is, and its text and numbers are the job's", "[e2e][c]") {
  InRound round;
  CHECK(round.work.step == 0);
  CHECK(round.work.generation == 1);
  CHECK(round.work.slot_count == 3);
  CHECK(round.work.slot_length == 3);
  CHECK(round.work.loss_scale == 1.0F);
  const char* text = nullptr;
  REQUIRE(capstan_job_file(round.client, &text) == CAPSTAN_OK);
  CHECK_THAT(text, Contains("kind = \"client\""));
  std::uint64_t count = 0;
  REQUIRE(capstan_element_count(round.client, &count) == CAPSTAN_OK);
  CHECK(count == 3 * 131072 + 5);
}

TEST_CASE("calls in C with numbers or in an order that cannot be are invalid and say why", "[e2e][c]") {
  struct Wrong {
    std::function<capstan_code(InRound&)> call;
    const char* text;
  };
  const std::array<Wrong, 10> all = {{
      {[](InRound& r) { return r.Begin(7); }, "is not the next slot"},
      {[](InRound& r) { return capstan_gradient_ready(r.client, 0, 0); }, "a slot that was begun"},
      {[](InRound& r) { return r.End(0); }, "does not end the slot"},
      {[](InRound& r) { return capstan_wait_weights(r.client, 0, 2, 0); }, "names no tensors"},
      {[](InRound& r) { return capstan_wait_weights(r.client, 1, 0, 0); }, "names no tensors"},
      {[](InRound& r) { return Declare(r.client); }, "Declare comes once"},
      {[](InRound& r) { return r.Begin(0) == CAPSTAN_OK ? capstan_gradient_ready(r.client, 0, 2) : CAPSTAN_OK; },
       "GradientReady(0, 2) names no tensors"},
      {[](InRound& r) { return r.Begin(0) == CAPSTAN_OK ? capstan_gradient_ready_from(r.client, 1, 99) : CAPSTAN_OK; },
       "so there is no element 99"},
      {[](InRound& r) { return r.Begin(0) == CAPSTAN_OK ? r.Begin(1) : CAPSTAN_OK; }, "is not the next slot"},
      {[](InRound& r) { return r.Begin(0) == CAPSTAN_OK ? EndWith(r, "top 5") : CAPSTAN_OK; },
       "EndSlot(0): metric \"top 5\": a name has"},
  }};
  for (const Wrong& wrong : all) {
    INFO(wrong.text);
    InRound round;
    CHECK(wrong.call(round) == CAPSTAN_INVALID);
    CHECK_THAT(round.error(), Contains(wrong.text));
    CHECK(capstan_next_work(round.client, 0, &round.work) == CAPSTAN_INVALID);  // it must not just go on
  }
}

TEST_CASE("groups of tensors are updated with the hyper-parameters of each round, kept until they are set again",
          "[e2e][c]") {
  InRound round(Groups::kOneEach);
  for (std::uint64_t step = 0; step < 5; ++step) {
    REQUIRE(round.work.step == step);
    if (step != 2) REQUIRE(SetRates(round.client, 0.25, static_cast<double>(step)) == CAPSTAN_OK);
    for (std::size_t i = 0; i < round.work.slot_length; ++i) {
      REQUIRE(RunSlot(round.client, round.work.slots[i]) == CAPSTAN_OK);
    }
    const float* weights = nullptr;
    REQUIRE(capstan_weights(round.client, &weights) == CAPSTAN_OK);
    CHECK(weights[0] == -0.25F * static_cast<float>(step));
    CHECK(weights[3 * 131072] == -std::array<float, 5>{0, 0, 1, 2, 5}.at(step));
    REQUIRE(capstan_next_work(round.client, kPatience, &round.work) == CAPSTAN_OK);
  }
  CHECK(round.work.done == 1);
}

TEST_CASE("hyper-parameters in C that are missing, late or wrong are invalid and say why", "[e2e][c]") {
  struct Wrong {
    std::function<capstan_code(InRound&)> call;
    const char* text;
  };
  const std::array<Wrong, 5> all = {{
      {[](InRound& r) { return RunSlot(r.client, 0); }, "GradientReadyFrom comes after SetHyperParameters"},
      {[](InRound& r) { return r.Begin(0) == CAPSTAN_OK ? r.End(0) : CAPSTAN_OK; },
       "EndSlot comes after SetHyperParameters: the tensors are declared with groups"},
      {[](InRound& r) { return SetRates(r.client, 1, -1); }, "group 2: learning_rate is -1"},
      {[](InRound& r) { return capstan_set_hyper_parameters(r.client, nullptr, 0); }, "declared with 2"},
      {[](InRound& r) {
         if (SetRates(r.client, 1, 1) != CAPSTAN_OK || RunSlot(r.client, 0) != CAPSTAN_OK) return CAPSTAN_OK;
         return SetRates(r.client, 1, 1);
       },
       "before the round's first gradient is final"},
  }};
  for (const Wrong& wrong : all) {
    INFO(wrong.text);
    InRound round(Groups::kOneEach);
    CHECK(wrong.call(round) == CAPSTAN_INVALID);
    CHECK_THAT(round.error(), Contains(wrong.text));
    CHECK(capstan_next_work(round.client, 0, &round.work) == CAPSTAN_INVALID);
  }
  InRound round;
  CHECK(capstan_set_hyper_parameters(round.client, nullptr, 1) == CAPSTAN_INVALID);
  CHECK_THAT(round.error(), Contains("groups is a null pointer"));
  std::array<capstan_hyper_parameters, 1> unsized{};
  CHECK(capstan_set_hyper_parameters(round.client, unsized.data(), 1) == CAPSTAN_INVALID);
  CHECK_THAT(round.error(), Contains("capstan_hyper_parameters.size is 0"));
  CHECK(capstan_set_hyper_parameters(round.client, unsized.data(), 1025) == CAPSTAN_INVALID);
  CHECK(SetRates(round.client, 1, 1) == CAPSTAN_INVALID);
  CHECK_THAT(round.error(), Contains("the job file owns them"));
}

TEST_CASE("of two workers with different hyper-parameters the later one is set aside, and hears why", "[e2e][c]") {
  InProcessJob job(MakeConfig(2));
  job.StartShard(0);
  const std::array<capstan_client*, 2> clients = {Connect(job, "w0"), Connect(job, "w1")};
  for (capstan_client* client : clients) REQUIRE(Declare(client, CAPSTAN_ZEROS, Groups::kOneEach) == CAPSTAN_OK);
  capstan_work work{};
  work.size = sizeof work;
  for (std::size_t i = 0; i < 2; ++i) {
    REQUIRE(capstan_next_work(clients[i], kPatience, &work) == CAPSTAN_OK);
    REQUIRE(SetRates(clients[i], 0.5, i == 0 ? 0.5 : 0.25) == CAPSTAN_OK);
    for (std::size_t slot = 0; slot < work.slot_length; ++slot) {
      REQUIRE(RunSlot(clients[i], work.slots[slot]) == CAPSTAN_OK);
    }
  }
  // Which one joined later is decided by their messages on the way.
  capstan_code code = CAPSTAN_TIMEOUT;
  std::size_t aside = 0;
  for (int i = 0; i < 600 && code != CAPSTAN_REFUSED; ++i) {
    aside = i % 2;
    code = capstan_next_work(clients[aside], 0.1, &work);
  }
  CHECK(code == CAPSTAN_REFUSED);
  const std::string text = capstan_last_error(clients[aside]), other = aside == 0 ? "w1" : "w0";
  CHECK_THAT(text,
             Contains("this worker is set aside: it contradicts \"" + other + "\", which joined before it: step 0"));
  CHECK_THAT(text, Contains("came with learning_rate 0."));
  CHECK_THAT(text, Contains("of group 2, slot"));
  CHECK(Train(clients[1 - aside], aside == 0 ? 0.25 : 0.5) == CAPSTAN_OK);  // the other one does all steps
  for (capstan_client* client : clients) capstan_free(client);
}

TEST_CASE("arguments in C that are missing or malformed are invalid, and the round goes on", "[e2e][c]") {
  InRound round;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(capstan_next_work(nullptr, 0, &round.work) == CAPSTAN_INVALID);
  CHECK(capstan_next_work(round.client, 0, nullptr) == CAPSTAN_INVALID);
  CHECK(capstan_wait_weights(round.client, 0, 1, nan) == CAPSTAN_INVALID);
  CHECK_THAT(round.error(), Contains("not a number"));
  CHECK(capstan_weights(round.client, nullptr) == CAPSTAN_INVALID);
  CHECK(capstan_begin_slot(round.client, 0, 1, nullptr) == CAPSTAN_INVALID);
  CHECK(capstan_end_slot(round.client, 0, nullptr) == CAPSTAN_INVALID);
  capstan_result result = OneSample();
  result.metric_count = 1;
  CHECK(capstan_end_slot(round.client, 0, &result) == CAPSTAN_INVALID);
  CHECK_THAT(round.error(), Contains("capstan_result.metrics is a null pointer"));
  const capstan_metric metric{};
  result.metrics = &metric;
  CHECK(capstan_end_slot(round.client, 0, &result) == CAPSTAN_INVALID);
  CHECK_THAT(round.error(), Contains("capstan_metric.size is 0"));
  result.metric_count = 33;
  CHECK(capstan_end_slot(round.client, 0, &result) == CAPSTAN_INVALID);
  CHECK_THAT(round.error(), Contains("metric_count is 33"));
  CHECK(capstan_barrier(round.client, nan) == CAPSTAN_INVALID);
  capstan_counters counters{};
  CHECK(capstan_read_counters(round.client, &counters) == CAPSTAN_INVALID);
  CHECK_THAT(round.error(), Contains("capstan_counters.size is 0; set it to sizeof"));
  for (std::size_t i = 0; i < round.work.slot_length; ++i) {
    CHECK(RunSlot(round.client, round.work.slots[i]) == CAPSTAN_OK);
  }
}

TEST_CASE("a description in C is read with care", "[e2e][c]") {
  InProcessJob job(MakeConfig());
  capstan_client* client = Connect(job, "w");
  CHECK(Declare(client, 5) == CAPSTAN_INVALID);
  CHECK_THAT(capstan_last_error(client), Contains("tensor \"small\": initial is 5"));
  CHECK(Declare(client, CAPSTAN_GIVEN) == CAPSTAN_INVALID);
  CHECK_THAT(capstan_last_error(client), Contains("tensor \"small\" has its first weights given") && Contains("null"));
  std::vector<float> given(kElements, 1.0F);
  given[kElements - 3] = std::numeric_limits<float>::infinity();
  CHECK(Declare(client, CAPSTAN_GIVEN, Groups::kJobFile, given.data()) == CAPSTAN_INVALID);
  CHECK_THAT(capstan_last_error(client), Contains("\"small\"") && Contains("element 2 of them is inf"));
  capstan_description description{};
  CHECK(capstan_declare(client, &description) == CAPSTAN_INVALID);
  description.size = sizeof description;
  description.tensor_count = 1;
  CHECK(capstan_declare(client, &description) == CAPSTAN_INVALID);
  CHECK_THAT(capstan_last_error(client), Contains("capstan_description.tensors is a null pointer"));
  const float* weights = nullptr;
  CHECK(capstan_weights(client, &weights) == CAPSTAN_INVALID);
  CHECK(Declare(client) == CAPSTAN_OK);
  capstan_free(client);
}

TEST_CASE("what an older program does not have is left out, in both directions", "[e2e][c]") {
  InRound round;
  struct {
    std::uint64_t size = 3 * sizeof(std::uint64_t);  // size of capstan_counters when it had two fields
    std::uint64_t messages_in = UINT64_MAX, messages_out = UINT64_MAX, behind = 7;
  } counters;
  CHECK(capstan_read_counters(round.client, reinterpret_cast<capstan_counters*>(&counters)) == CAPSTAN_OK);
  CHECK(counters.messages_in != UINT64_MAX);
  CHECK(counters.messages_out != UINT64_MAX);
  CHECK(counters.size == 3 * sizeof(std::uint64_t));
  CHECK(counters.behind == 7);
  const std::string coordinator = round.job.address();
  capstan_options options = OptionsFor(coordinator.c_str(), "older");
  options.size = offsetof(capstan_options, rank);
  options.rank = 99;  // that program has another field there
  capstan_client* client = nullptr;
  CHECK(capstan_connect(&options, &client, nullptr, 0) == CAPSTAN_OK);
  capstan_free(client);
}

// The struct capstan_tensor as it was before groups existed: it has four bytes of padding at its end.
struct OlderTensor {
  std::size_t size = sizeof(OlderTensor);
  const char* name = "old";
  const std::int64_t* shape = nullptr;
  std::size_t dimensions = 0;
  std::int32_t initial = CAPSTAN_ZEROS;
  float scale = 0;
  std::int32_t no_weight_decay = 0;
};

TEST_CASE("what lies in the padding of an older program's struct is nobody's field", "[e2e][c]") {
  InProcessJob job(MakeConfig());
  capstan_client* client = Connect(job, "older");
  const std::int64_t five = 5;
  OlderTensor tensor;
  tensor.shape = &five;
  tensor.dimensions = 1;
  constexpr std::size_t kEnd = offsetof(OlderTensor, no_weight_decay) + sizeof tensor.no_weight_decay;
  std::memset(reinterpret_cast<char*>(&tensor) + kEnd, 0x5A, sizeof tensor - kEnd);
  capstan_description description{};
  description.size = sizeof description;
  description.tensors = reinterpret_cast<const capstan_tensor*>(&tensor);
  description.tensor_count = 1;
  CHECK(capstan_declare(client, &description) == CAPSTAN_OK);
  CHECK(std::string(capstan_last_error(client)).empty());
  capstan_free(client);
}

TEST_CASE("what a newer program sets and this library does not know is unsupported", "[e2e][c]") {
  struct Newer {
    capstan_options known;
    std::uint64_t more;
  } newer{OptionsFor("127.0.0.1:1", "w"), 1};
  newer.known.size = sizeof newer;
  newer.known.join_seconds = 0.2;
  capstan_client* client = nullptr;
  std::array<char, 64> error{};
  CHECK(capstan_connect(&newer.known, &client, error.data(), error.size()) == CAPSTAN_UNSUPPORTED);
  CHECK(client == nullptr);
  CHECK_THAT(error.data(), Contains("capstan_options has fields"));
  CHECK(error.back() == '\0');
  newer.more = 0;
  CHECK(capstan_connect(&newer.known, &client, nullptr, 0) != CAPSTAN_UNSUPPORTED);
}

TEST_CASE("a coordinator that is not there is unreachable or too late, by the deadline", "[e2e][c]") {
  capstan_options options = OptionsFor("127.0.0.1:1", "w");
  options.join_seconds = 0.3;
  capstan_client* client = nullptr;
  std::array<char, 256> error{};
  const capstan_code code = capstan_connect(&options, &client, error.data(), error.size());
  INFO(error.data());
  CHECK((code == CAPSTAN_UNREACHABLE || code == CAPSTAN_TIMEOUT));
  CHECK(client == nullptr);
  CHECK(error[0] != '\0');
  options.coordinator = nullptr;
  CHECK(capstan_connect(&options, &client, error.data(), error.size()) == CAPSTAN_INVALID);
}

TEST_CASE("a rank in C is counted from 1 and comes with how many there are", "[e2e][c][rank]") {
  capstan_client* client = nullptr;
  std::array<char, 256> error{};
  for (const auto& [rank, ranks] : {std::pair(3U, 2U), std::pair(0U, 2U), std::pair(1U, 0U)}) {
    capstan_options options = OptionsFor("127.0.0.1:1", "w");
    options.rank = rank;
    options.ranks = ranks;
    CHECK(capstan_connect(&options, &client, error.data(), error.size()) == CAPSTAN_INVALID);
    CHECK_THAT(error.data(), Contains("capstan_options.rank is " + std::to_string(rank)));
  }
}

TEST_CASE("ranks in C train a job, each its own slot", "[e2e][c][rank]") {
  EditableJobConfig config = MakeConfig(3);
  InProcessJob job(config);
  job.StartShard(0);
  std::array<capstan_client*, 3> clients{};
  std::array<std::future<capstan_code>, 3> ends;
  const std::string coordinator = job.address();
  for (std::uint32_t i = 0; i < 3; ++i) {
    const std::string name = "w" + std::to_string(i);
    capstan_options options = OptionsFor(coordinator.c_str(), name.c_str());
    options.rank = 3 - i;
    options.ranks = 3;
    REQUIRE(capstan_connect(&options, &clients[i], nullptr, 0) == CAPSTAN_OK);
    REQUIRE(Declare(clients[i]) == CAPSTAN_OK);
  }
  for (std::uint32_t i = 0; i < 3; ++i) {
    ends[i] = std::async(std::launch::async, [client = clients[i], slot = 2 - i] {
      capstan_work work{};
      work.size = sizeof work;
      const capstan_code code = capstan_next_work(client, -1, &work);
      if (code != CAPSTAN_OK || work.slot_length != 1 || work.slots[0] != slot) return CAPSTAN_INVALID;
      const capstan_code first = RunSlot(client, slot);
      return first == CAPSTAN_OK ? Train(client) : first;
    });
  }
  for (std::future<capstan_code>& end : ends) CHECK(end.get() == CAPSTAN_OK);
  for (capstan_client* client : clients) capstan_free(client);
}

TEST_CASE("no work in no time is a timeout, and the call may be made again", "[e2e][c]") {
  InProcessJob job(MakeConfig());  // no shard yet
  capstan_client* client = Connect(job, "w");
  REQUIRE(Declare(client) == CAPSTAN_OK);
  capstan_work work{};
  work.size = sizeof work;
  CHECK(capstan_next_work(client, 0, &work) == CAPSTAN_TIMEOUT);
  job.StartShard(0);
  CHECK(capstan_next_work(client, kPatience, &work) == CAPSTAN_OK);
  CHECK(capstan_leave(client, "enough") == CAPSTAN_OK);
  CHECK(capstan_next_work(client, -1, &work) == CAPSTAN_INVALID);
  CHECK_THAT(capstan_last_error(client), Contains("has left the job"));
  capstan_free(client);
}

TEST_CASE("a barrier in C ends when every client has called it, and names who has not", "[e2e][c][barrier]") {
  InProcessJob job(MakeConfig(2));
  job.StartShard(0);
  const std::array<capstan_client*, 2> clients = {Connect(job, "w0"), Connect(job, "w1")};
  CHECK(capstan_barrier(clients[0], 0) == CAPSTAN_INVALID);
  CHECK_THAT(capstan_last_error(clients[0]), Contains("Barrier comes after Declare"));
  capstan_free(clients[0]);
  capstan_client* first = Connect(job, "w0");
  REQUIRE(Declare(first) == CAPSTAN_OK);
  CHECK(capstan_barrier(first, 0.5) == CAPSTAN_TIMEOUT);
  CHECK_THAT(capstan_last_error(first), Contains("waited for 1 of 2 workers (not joined) in a barrier"));
  REQUIRE(Declare(clients[1]) == CAPSTAN_OK);
  capstan_work work{};
  work.size = sizeof work;
  REQUIRE(capstan_next_work(clients[1], kPatience, &work) == CAPSTAN_OK);
  bool heard = false;  // w1 was heard, by a beat; there is one every second
  for (int i = 0; i < 2 * kPatience && !heard; ++i) {
    REQUIRE(capstan_barrier(first, 0.5) == CAPSTAN_TIMEOUT);
    heard = std::string(capstan_last_error(first)).find("waited for w1 in a barrier") != std::string::npos;
  }
  CHECK(heard);
  CHECK(capstan_barrier(clients[1], kPatience) == CAPSTAN_OK);  // in its round
  REQUIRE(capstan_next_work(first, kPatience, &work) == CAPSTAN_OK);
  CHECK(capstan_barrier(first, 0) == CAPSTAN_OK);       // the others have reached it meanwhile
  CHECK(capstan_barrier(first, 0) == CAPSTAN_TIMEOUT);  // the next one
  for (capstan_client* client : {first, clients[1]}) capstan_free(client);
}

TEST_CASE("in a child of fork() every call is invalid and the end of the handle is nothing", "[e2e][c]") {
  InRound round;
  const int failed = InChild([&] {
    capstan_client* c = round.client;
    float* gradient = nullptr;
    const float* weights = nullptr;
    const char* text = nullptr;
    std::uint64_t count = 0;
    const capstan_result result = OneSample();
    capstan_counters counters{};
    counters.size = sizeof counters;
    int wrong = 0;
    for (const capstan_code code :
         {capstan_next_work(c, -1, &round.work), capstan_job_file(c, &text), capstan_weights(c, &weights),
          capstan_element_count(c, &count), capstan_wait_weights(c, 0, 1, -1), capstan_begin_slot(c, 0, 1, &gradient),
          capstan_gradient_ready(c, 0, 1), capstan_gradient_ready_from(c, 0, 1), capstan_end_slot(c, 0, &result),
          capstan_leave(c, "child"), capstan_read_counters(c, &counters), Declare(c),
          capstan_set_hyper_parameters(c, nullptr, 0), capstan_barrier(c, -1)}) {
      if (code != CAPSTAN_INVALID) ++wrong;
    }
    if (round.error().find("after fork()") == std::string::npos) ++wrong;
    capstan_free(c);
    return wrong;
  });
  CHECK(failed == 0);
  for (std::size_t i = 0; i < round.work.slot_length; ++i) {
    CHECK(RunSlot(round.client, round.work.slots[i]) == CAPSTAN_OK);
  }
}

}  // namespace capstan
