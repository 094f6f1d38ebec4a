// Readers, in C++ and in C, of a job in this process: the versions they get, and that the job does not wait for them.
#include <capstan/capstan.h>
#include <capstan/client.h>
#include <capstan/reader.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <future>
#include <limits>
#include <string>

#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job_config.h"
#include "tests/catch.h"
#include "tests/e2e/in_process_job.h"
#include "tests/patience.h"
#include "worker/client/reader_core.h"

namespace capstan {
namespace {

using Catch::Matchers::Contains;
using e2e::InProcessJob;

const double kPatience = 60 * testing::Patience();
constexpr std::uint64_t kSteps = 10;
constexpr std::int64_t kLarge = 34 * 262144 + 5;  // more blocks of a shard than are requested at a time

EditableJobConfig MakeConfig(Mode mode, double lease) {
  EditableJobConfig config;
  config.model.kind = ModelKind::kClient;
  config.job.mode = mode;
  config.job.steps = kSteps;
  config.job.slots = config.job.global_batch = 2;
  config.optimizer.kind = OptimizerKind::kMomentum;
  config.optimizer.momentum = 0.5;
  config.optimizer.lr = 0.25;
  config.cluster.servers = 2;
  config.cluster.workers = config.cluster.min_workers = 1;
  config.limits.join = config.limits.stall = 20 * testing::Patience();
  config.limits.lease = lease * testing::Patience();
  return config;
}

std::unique_ptr<Client> ConnectWorker(const InProcessJob& job) {
  std::unique_ptr<Client> client =
      Client::Connect({job.address(), "w", std::chrono::seconds(20 * testing::Patience()), {}}).value();
  WorkerDescription description;
  description.tensors = {{"large", {kLarge}}, {"small", {2, 3}}};
  REQUIRE(client->Declare(description).ok());
  return client;
}

// Trains with gradients that are 1 everywhere. Stops before the step `end`.
Status Train(Client* client, std::uint64_t end = UINT64_MAX) {
  while (true) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::optional<Work> work, client->NextWork(Client::kNoDeadline));
    if (!work || work->step >= end) return {};
    for (std::uint32_t slot : work->slots) {
      CAPSTAN_ASSIGN_OR_RETURN(float* const gradient, client->BeginSlot(slot, 1));
      std::fill_n(gradient, client->element_count(), 1.0F);
      const Status status = client->EndSlot(slot, {1.0, 1});
      if (!status.ok() && status.code() != Code::kStale) return status;
    }
  }
}

// Returns the weight and the momentum after `step` steps in which all gradients are 1.
std::pair<float, float> After(std::uint64_t step) {
  float weight = 0, momentum = 0;
  for (std::uint64_t i = 0; i < step; ++i) {
    momentum = 0.5F * momentum + 1.0F;
    weight -= 0.25F * momentum;
  }
  return {weight, momentum};
}

bool IsAll(const float* values, std::uint64_t count, float value) {
  // Compares with memcmp: in unoptimised tests a loop would pause the reader so long that the job stops waiting for it.
  const std::vector<float> expected(count, value);
  return values != nullptr && std::memcmp(values, expected.data(), count * sizeof(float)) == 0;
}

std::chrono::seconds Patient() { return std::chrono::seconds(20 * testing::Patience()); }

struct RunningJob : InProcessJob {
  // The lease is so long that only a process that pauses exceeds it, however slow a sanitizer makes the others.
  explicit RunningJob(
      Mode mode = Mode::kSync, double lease = 20, std::function<void(const Notice&)> on_notice = [](const Notice&) {})
      : InProcessJob(MakeConfig(mode, lease), std::move(on_notice)) {
    StartShard(0);
    StartShard(1);
  }
  std::unique_ptr<Reader> Follow() { return Reader::Connect({coordinator->endpoint(), "r", Patient()}).value(); }
};

Reader::Deadline Now() { return std::chrono::steady_clock::now(); }
std::chrono::milliseconds Seconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::duration<double>(seconds));
}
Reader::Deadline In(double seconds) { return Now() + Seconds(seconds); }

// Lets the reader read the version before the last one, then the worker do the last step.
void FinishAfterReading(Client* worker, Reader* reader) {
  REQUIRE(Train(worker, kSteps - 1).ok());
  const std::optional<PulledVersion> read = reader->Pull({}, In(kPatience)).value();
  REQUIRE(read);
  REQUIRE(read->step == kSteps - 1);
  REQUIRE_FALSE(read->done);
  REQUIRE(Train(worker).ok());
}

void AwaitFinalWeights(RunningJob* job) {
  const Reader::Deadline give_up = In(kPatience);
  while (!std::filesystem::exists(job->folder.path("final.safetensors"))) {
    REQUIRE(Now() < give_up);
    REQUIRE_FALSE(job->ends.PopUntil(In(0.05)));
  }
}

// Ends a job while one reader stands still and another comes, half a lease later. Returns false if this machine was too
// slow to see what the job does after the first one's lease.
bool LateReaderIsWaitedFor(double lease) {
  Mailbox<Reader::Deadline> waits(4);  // when the job began to wait for readers
  RunningJob job(Mode::kSync, lease, [&waits](const Notice& notice) {
    if (notice.text.find("the job is done; waiting up to") != std::string::npos) (void)waits.Push(Now()).ok();
  });
  lease = job.config.limits.lease;
  std::unique_ptr<Reader> still = job.Follow();
  const std::unique_ptr<Client> worker = ConnectWorker(job);
  const Reader::Deadline before = Now();
  FinishAfterReading(worker.get(), still.get());
  std::optional<Reader::Deadline> began;
  for (bool ended = false; !began && !ended; ended = job.ends.TryPop().has_value()) {
    REQUIRE(Now() < before + Seconds(kPatience));
    began = waits.PopUntil(In(0.05));
  }
  if (began.value_or(Now()) > before + Seconds(0.9 * lease)) return false;
  REQUIRE(began);
  const bool ended_at_once = job.ends.PopUntil(*began + Seconds(0.5 * lease)).has_value();
  const Reader::Deadline second_nearly_over = In(0.9 * lease);
  if (Now() > *began + Seconds(0.9 * lease)) return false;
  REQUIRE_FALSE(ended_at_once);
  Result<std::unique_ptr<Reader>> late = Reader::Connect({job.address(), "r", Patient()});
  const auto progress = late.ok() ? (*late)->progress(In(kPatience)) : Result<JobProgress>(late.status());
  if (Now() > *began + Seconds(0.9 * lease)) return false;
  REQUIRE(progress.status().message() == "");
  CHECK(progress->state == JobState::kDone);
  const bool ended_with_first = job.ends.PopUntil(*began + Seconds(1.1 * lease)).has_value();
  if (Now() > second_nearly_over) return false;
  REQUIRE_FALSE(ended_with_first);
  const auto last = (*late)->Pull({kSteps - 1, false}, In(kPatience));
  if (Now() > second_nearly_over) return false;
  REQUIRE(last.status().message() == "");
  REQUIRE(last->has_value());
  CHECK((*last)->step == kSteps);
  still.reset();
  late->reset();
  CHECK(job.WaitForEnds(3));
  return true;
}

capstan_reader* ConnectInC(const InProcessJob& job) {
  const std::string coordinator = job.address();
  capstan_reader_options options{};
  options.size = sizeof options;
  options.coordinator = coordinator.c_str();
  options.name = "r";
  capstan_reader* reader = nullptr;
  std::array<char, 256> error{};
  const capstan_code code = capstan_reader_connect(&options, &reader, error.data(), error.size());
  INFO(error.data());
  REQUIRE(code == CAPSTAN_OK);
  return reader;
}

}  // namespace

TEST_CASE("a reader sees rising versions, each whole and with its state, to the last", "[e2e][reader]") {
  RunningJob job;
  const std::unique_ptr<Reader> reader = job.Follow();
  CHECK_THAT(reader->job_file(), Contains("momentum"));
  CHECK(reader->state_names() == std::vector<std::string>{"momentum_buffer"});
  CHECK(reader->weights() == nullptr);
  const std::unique_ptr<Client> worker = ConnectWorker(job);
  PullOptions options{{}, true};
  std::vector<std::uint64_t> steps;
  bool done = false;
  for (const std::uint64_t until : {2, 5, 6}) {
    REQUIRE(Train(worker.get(), until).ok());
    const std::optional<PulledVersion> version = reader->Pull(options, In(kPatience)).value();
    REQUIRE(version);
    CHECK(version->step == until);
    CHECK(IsAll(reader->weights(), reader->element_count(), After(until).first));
    steps.push_back(until);
    options.newer_than = until;
  }
  std::future<Status> end = std::async(std::launch::async, [&] { return Train(worker.get()); });
  while (const std::optional<PulledVersion> version = reader->Pull(options, In(kPatience)).value()) {
    CHECK(version->step > steps.back());
    const auto [weight, momentum] = After(version->step);
    CHECK(IsAll(reader->weights(), reader->element_count(), weight));
    CHECK(IsAll(reader->state(0), reader->element_count(), momentum));
    steps.push_back(version->step);
    done = version->done;
    options.newer_than = version->step;
  }
  CHECK(end.get().ok());
  CHECK(done);
  CHECK(steps.back() == kSteps);
  REQUIRE(reader->tensors().size() == 2);
  CHECK(reader->tensors()[1].name == "small");
  CHECK(reader->tensors()[1].shape == std::vector<std::int64_t>{2, 3});
  CHECK(reader->element_count() == static_cast<std::uint64_t>(kLarge) + 6);
  CHECK(job.WaitForEnds(3));
  CHECK(job.coordinator->outcome().ok());
}

TEST_CASE("without global steps a reader follows too, to the last version", "[e2e][reader][long]") {
  const Mode mode = GENERATE(Mode::kAsync, Mode::kBounded);
  RunningJob job(mode);
  const std::unique_ptr<Reader> reader = job.Follow();
  const std::unique_ptr<Client> worker = ConnectWorker(job);
  std::future<Status> end = std::async(std::launch::async, [&] { return Train(worker.get()); });
  PullOptions options;
  std::optional<PulledVersion> last;
  while (const std::optional<PulledVersion> version = reader->Pull(options, In(kPatience)).value()) {
    CHECK(reader->weights()[0] <= After(version->step).first);  // at least so many pushes
    options.newer_than = version->step;
    last = version;
  }
  CHECK(end.get().ok());
  REQUIRE(last);
  CHECK(last->done);
  CHECK(last->step == kSteps);
  CHECK(job.WaitForEnds(3));
}

TEST_CASE("what does not come by the deadline is a timeout that says for whom, and the call may be made again",
          "[e2e][reader]") {
  RunningJob job;
  const std::unique_ptr<Reader> reader = job.Follow();
  const auto early = reader->Pull({}, In(0.1));
  CHECK(early.status().code() == Code::kTimeout);
  CHECK_THAT(early.status().message(), Contains("a worker to declare"));
  CHECK(reader->progress(In(kPatience)).value().state == JobState::kGathering);
  std::unique_ptr<Client> worker = ConnectWorker(job);
  REQUIRE(Train(worker.get(), 3).ok());
  std::optional<PulledVersion> version;
  while (!version || version->step < 3) {
    PullOptions options;
    if (version) options.newer_than = version->step;
    auto pulled = reader->Pull(options, In(0));  // one slice after the other, each without waiting
    if (!pulled.ok()) REQUIRE(pulled.status().code() == Code::kTimeout);
    if (pulled.ok()) version = *pulled;
  }
  CHECK(IsAll(reader->weights(), reader->element_count(), After(3).first));
  const auto late = reader->Pull({3, false}, In(0.1));
  CHECK(late.status().code() == Code::kTimeout);
  CHECK_THAT(late.status().message(), Contains("end step 3"));
  CHECK(reader->weights() == nullptr);
  const JobProgress progress = reader->progress(In(kPatience)).value();
  CHECK(progress.state == JobState::kRunning);
  CHECK(progress.step == 3);
  CHECK(progress.slot_count == 2);
}

TEST_CASE("a coordinator that is not there is unreachable to a reader", "[e2e][reader]") {
  const auto reader = Reader::Connect({"127.0.0.1:1", "r", std::chrono::milliseconds(300)});
  CHECK(reader.status().code() == Code::kUnreachable);
  CHECK_THAT(reader.status().message(), Contains("127.0.0.1:1"));
  CHECK(Reader::Connect({"127.0.0.1:1", "", std::chrono::milliseconds(300)}).status().code() == Code::kInvalid);
}

TEST_CASE("a job ends without a reader that has left, and without one that stands still", "[e2e][reader][long]") {
  RunningJob job(Mode::kSync, 3);
  const std::unique_ptr<Reader> still = job.Follow();
  const std::unique_ptr<Client> worker = ConnectWorker(job);
  REQUIRE(Train(worker.get(), 1).ok());  // so that the job's end does not come before the reader has read
  REQUIRE(still->Pull({}, In(kPatience)).ok());
  CHECK(Train(worker.get()).ok());
  CHECK(job.WaitForEnds(3));
  CHECK(job.coordinator->outcome().ok());
}

TEST_CASE("the end of a job waits for a reader that has not read the last version", "[e2e][reader][long]") {
  RunningJob job;
  const std::unique_ptr<Reader> reader = job.Follow();
  const std::unique_ptr<Client> worker = ConnectWorker(job);
  FinishAfterReading(worker.get(), reader.get());
  AwaitFinalWeights(&job);
  CHECK_FALSE(job.ends.PopUntil(In(0.5)));
  const std::optional<PulledVersion> last = reader->Pull({kSteps - 1, false}, In(kPatience)).value();
  REQUIRE(last);
  CHECK(last->done);
  CHECK(last->step == kSteps);
  CHECK(IsAll(reader->weights(), reader->element_count(), After(kSteps).first));
  CHECK(job.WaitForEnds(3));
}

TEST_CASE("a reader that comes while the job's end waits for another has a lease of its own", "[e2e][reader][long]") {
  double lease = 5;
  while (!LateReaderIsWaitedFor(lease)) {
    lease *= 3;
    REQUIRE(lease < 200);
  }
}

TEST_CASE("a shard that is lost while the job's end waits for a reader takes nothing back", "[e2e][reader][long]") {
  RunningJob job(Mode::kSync, 60);  // the reader pauses while the final weights are written
  std::unique_ptr<Reader> reader = job.Follow();
  const std::unique_ptr<Client> worker = ConnectWorker(job);
  FinishAfterReading(worker.get(), reader.get());
  AwaitFinalWeights(&job);  // until the file exists, the loss of a shard takes the job back, however long that takes
  CHECK_FALSE(job.ends.PopUntil(In(0.5)));
  job.shards[0].reset();
  job.StartShard(0);  // it counts as the same shard once the earlier one has been silent
  CHECK(reader->Pull({kSteps - 1, false}, In(8)).status().code() == Code::kTimeout);
  CHECK_THAT(job.coordinator->StatusJson(), Contains("\"finished\""));
  reader.reset();
  while (!job.coordinator->ended() && job.WaitForEnds(1)) continue;
  CHECK(job.coordinator->outcome().message() == "");
}

TEST_CASE("a reader in C sees what one in C++ sees", "[e2e][reader][c]") {
  RunningJob job;
  capstan_reader* reader = ConnectInC(job);
  const std::unique_ptr<Client> worker = ConnectWorker(job);
  REQUIRE(Train(worker.get(), 2).ok());
  capstan_pull_options options{sizeof options, 1, 1, 1};
  capstan_pulled pulled{};
  pulled.size = sizeof pulled;
  REQUIRE(capstan_reader_pull(reader, &options, kPatience, &pulled) == CAPSTAN_OK);
  CHECK(pulled.step == 2);
  CHECK(pulled.generation == 1);
  CHECK(pulled.done + pulled.nothing_newer == 0);
  std::uint64_t count = 0;
  const float *weights = nullptr, *state = nullptr;
  REQUIRE(capstan_reader_element_count(reader, &count) == CAPSTAN_OK);
  REQUIRE(capstan_reader_weights(reader, &weights) == CAPSTAN_OK);
  REQUIRE(capstan_reader_state(reader, 0, &state) == CAPSTAN_OK);
  CHECK(IsAll(weights, count, After(2).first));
  CHECK(IsAll(state, count, After(2).second));
  std::size_t tensors = 0, states = 0;
  const char *name = nullptr, *text = nullptr;
  CHECK(capstan_reader_tensor_count(reader, &tensors) == CAPSTAN_OK);
  CHECK(tensors == 2);
  capstan_reader_tensor tensor{};
  tensor.size = sizeof tensor;
  REQUIRE(capstan_reader_read_tensor(reader, 1, &tensor) == CAPSTAN_OK);
  CHECK(std::string(tensor.name) == "small");
  CHECK((tensor.dimensions == 2 && tensor.shape[1] == 3));
  CHECK(capstan_reader_state_count(reader, &states) == CAPSTAN_OK);
  CHECK(states == 1);
  REQUIRE(capstan_reader_state_name(reader, 0, &name) == CAPSTAN_OK);
  CHECK(std::string(name) == "momentum_buffer");
  CHECK(capstan_reader_job_file(reader, &text) == CAPSTAN_OK);
  CHECK_THAT(text, Contains("momentum"));
  capstan_progress progress{};
  progress.size = sizeof progress;
  REQUIRE(capstan_reader_progress(reader, kPatience, &progress) == CAPSTAN_OK);
  CHECK(progress.state == CAPSTAN_RUNNING);
  CHECK(progress.step == 2);
  CHECK(std::string(progress.message).empty());

  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(capstan_reader_pull(reader, &options, nan, &pulled) == CAPSTAN_INVALID);
  CHECK(capstan_reader_pull(reader, nullptr, 0, &pulled) == CAPSTAN_INVALID);
  CHECK(capstan_reader_pull(reader, &options, 0, nullptr) == CAPSTAN_INVALID);
  CHECK(capstan_reader_pull(nullptr, &options, 0, &pulled) == CAPSTAN_INVALID);
  CHECK(capstan_reader_read_tensor(reader, 2, &tensor) == CAPSTAN_INVALID);
  CHECK_THAT(capstan_reader_last_error(reader), Contains("tensor 2 is asked for; there are 2"));
  CHECK(capstan_reader_state(reader, 1, &state) == CAPSTAN_INVALID);
  CHECK(capstan_reader_weights(reader, nullptr) == CAPSTAN_INVALID);
  options.newer_than = 2;
  CHECK(capstan_reader_pull(reader, &options, 0.05, &pulled) == CAPSTAN_TIMEOUT);
  CHECK_THAT(capstan_reader_last_error(reader), Contains("waited for"));
  CHECK(capstan_reader_weights(reader, &weights) == CAPSTAN_INVALID);
  capstan_reader_free(reader);
  capstan_reader_free(nullptr);
}

TEST_CASE("in a child of fork() a reader answers nothing and ends without a word", "[e2e][reader][c]") {
  RunningJob job;
  capstan_reader* reader = ConnectInC(job);
  const pid_t child = fork();
  if (child == 0) {
    capstan_progress progress{};
    progress.size = sizeof progress;
    const bool invalid = capstan_reader_progress(reader, -1, &progress) == CAPSTAN_INVALID;
    capstan_reader_free(reader);
    _exit(invalid ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  capstan_progress progress{};
  progress.size = sizeof progress;
  CHECK(capstan_reader_progress(reader, kPatience, &progress) == CAPSTAN_OK);
  capstan_reader_free(reader);
}

}  // namespace capstan
