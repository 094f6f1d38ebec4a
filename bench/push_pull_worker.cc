#include "bench/push_pull_worker.h"

#include <capstan/client.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "common/flight/flight_recorder.h"
#include "worker/client/client_base.h"

namespace capstan::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kCommandPatience{60};

WorkerDescription Describe(const PushPullLoad& load) {
  WorkerDescription description;
  for (std::size_t i = 0; i < load.tensors; ++i) {
    description.tensors.push_back({"t" + std::to_string(i),
                                   {static_cast<std::int64_t>(load.tensor_bytes / sizeof(float))},
                                   InitialWeights::kUniform,
                                   1.0F});
  }
  description.numeric_class = "benchmark";
  return description;
}

class PushPullWorker {
 public:
  PushPullWorker(std::unique_ptr<Client> client, std::uint32_t tensors)
      : client_(std::move(client)), last_(tensors - 1) {}

  // Pulls every tensor, and pushes a gradient for it as soon as its weights arrive, so that both directions are busy.
  Status Round() {
    const auto deadline = Clock::now() + kCommandPatience;
    CAPSTAN_ASSIGN_OR_RETURN(const std::optional<Work> work, client_->NextWork(deadline));
    if (!work) return Refused("the benchmark's job is over");
    for (std::uint32_t slot : work->slots) {
      CAPSTAN_ASSIGN_OR_RETURN(float* const gradient, client_->BeginSlot(slot, 1));
      if (filled_.insert(gradient).second) std::fill_n(gradient, client_->element_count(), 1e-3F);
      for (std::uint32_t tensor = 0; tensor <= last_; ++tensor) {
        CAPSTAN_RETURN_IF_ERROR(client_->WaitWeights(tensor, tensor, deadline));
        CAPSTAN_RETURN_IF_ERROR(client_->GradientReady(tensor, tensor));
      }
      CAPSTAN_RETURN_IF_ERROR(client_->EndSlot(slot, {.loss_sum = 1.0, .predictions = 1}));
    }
    return {};
  }

 private:
  std::unique_ptr<Client> client_;
  const std::uint32_t last_;
  std::set<float*> filled_;  // the client's few buffers; each gets its gradient only once
};

double Quantile(std::vector<double>* values, double fraction) {
  const auto place = static_cast<std::size_t>(fraction * static_cast<double>(values->size() - 1));
  std::nth_element(values->begin(), values->begin() + static_cast<std::ptrdiff_t>(place), values->end());
  return (*values)[place];
}

Result<PushPullTimes> TimeRounds(PushPullWorker* worker, double seconds) {
  std::vector<double> rounds;
  const Clock::time_point start = Clock::now();
  Clock::time_point before = start;
  while (std::chrono::duration<double>(before - start).count() < seconds) {
    CAPSTAN_RETURN_IF_ERROR(worker->Round());
    const Clock::time_point now = Clock::now();
    rounds.push_back(std::chrono::duration<double>(now - before).count());
    before = now;
  }
  PushPullTimes times;
  times.rounds = rounds.size();
  times.seconds = std::chrono::duration<double>(before - start).count();
  times.round_p50 = Quantile(&rounds, 0.5);
  times.round_p99 = Quantile(&rounds, 0.99);
  return times;
}

}  // namespace

std::string PushPullTimes::ToLine() const {
  std::ostringstream line;
  line.precision(12);
  line << rounds << ' ' << seconds << ' ' << round_p50 << ' ' << round_p99;
  return line.str();
}

PushPullTimes PushPullTimes::FromLine(const std::string& line) {
  PushPullTimes times;
  std::istringstream(line) >> times.rounds >> times.seconds >> times.round_p50 >> times.round_p99;
  return times;
}

Status RunPushPullWorker(Channel& parent, const std::string& coordinator, const std::string& key_file,
                         const std::string& name, const PushPullLoad& load) {
  ClientOptions options;
  options.coordinator = coordinator;
  options.key_file = key_file;
  options.worker = name;
  FlightRecorder flight(name);  // as capstan-worker has one
  client::ProcessTraits traits;
  traits.flight = flight.AddLane(name);
  CAPSTAN_ASSIGN_OR_RETURN(client::Connection connection, client::Connect(options, traits));
  std::unique_ptr<Client> client = client::CreateParameterServerClient(std::move(connection));
  CAPSTAN_RETURN_IF_ERROR(client->Declare(Describe(load)));
  PushPullWorker worker(std::move(client), static_cast<std::uint32_t>(load.tensors));
  for (int i = 0; i < load.warmup_rounds; ++i) CAPSTAN_RETURN_IF_ERROR(worker.Round());
  parent.Send("ready");
  CAPSTAN_RETURN_IF_ERROR(parent.Receive().status());
  CAPSTAN_ASSIGN_OR_RETURN(const PushPullTimes times, TimeRounds(&worker, load.seconds));
  parent.Send(times.ToLine());
  for (;;) CAPSTAN_RETURN_IF_ERROR(worker.Round());
}

}  // namespace capstan::bench
