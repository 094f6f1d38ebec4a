#include "bench/push_pull_bench.h"

#include <algorithm>
#include <string>
#include <utility>

#include "bench/push_pull_worker.h"
#include "bench/raw_key_value.h"
#include "bench/raw_shared.h"
#include "bench/raw_zmq.h"
#include "common/data/catalog.h"

namespace capstan::bench {
namespace {

constexpr int kRoundTrips = 2000;

struct Case {
  Carrier carrier = Carrier::kTcp;
  int servers = 1;  // with the same number of workers
  PushPullLoad load;
};

// The measurements of a case, and the readings of each.
enum Measured : std::size_t { kRaw, kJob, kKeyValue };
enum JobReading : std::size_t { kRate, kCpu, kRequests, kRoundP50, kRoundP99 };  // of kRaw and kKeyValue the first two

// Returns how many tensors the model has. Those of a round are all in flight.
std::size_t TensorsOf(std::size_t tensor_bytes, int servers) {
  // Small tensors travel together, and of several servers each needs a block of them.
  const std::size_t blocks = servers == 1 ? 0 : static_cast<std::size_t>(servers) * kBlockElements * sizeof(float);
  if (tensor_bytes <= 64u << 10) return std::max<std::size_t>(256, blocks / tensor_bytes);
  return std::max<std::size_t>(4, (64u << 20) / tensor_bytes);
}

std::string FrameName(std::size_t bytes) {
  if (bytes >= 1u << 20) return std::to_string(bytes >> 20) + "-mib";
  if (bytes >= 1u << 10) return std::to_string(bytes >> 10) + "-kib";
  return std::to_string(bytes) + "-b";
}

std::string JobFile(const Case& what) {
  const std::string count = std::to_string(what.servers);
  return "[job]\nname = \"bench\"\nmode = \"async\"\nsteps = 1000000000\nglobal_batch = " + count +
         "\nslots = " + count +
         "\n[model]\nkind = \"mlp\"\n[data]\nkind = \"synthetic\"\n[optimizer]\nkind = \"sgd\"\nlr = 1e-6\n" +
         "[snapshot]\nevery_seconds = 0\n[cluster]\nservers = " + count + "\nworkers = " + count +
         "\nmin_workers = " + count + "\n";
}

// Returns the payload bytes of one frame.
std::size_t FrameBytes(const PushPullLoad& load) {
  return std::min<std::size_t>(load.model_bytes(), kBlockElements * sizeof(float));
}

class WorkerGroup {
 public:
  WorkerGroup(const Case& what, const BenchCluster& cluster) {
    for (int i = 0; i < what.servers; ++i) {
      const std::string name = "bench-" + std::to_string(i);
      workers_.push_back(ChildProcess::Fork([&](Channel& parent) {
        return RunPushPullWorker(parent, cluster.coordinator(), cluster.worker_key_file(), name, what.load);
      }));
    }
  }
  Status AwaitReady() {
    for (ChildProcess& worker : workers_) CAPSTAN_RETURN_IF_ERROR(worker.channel().Receive().status());
    return {};
  }
  void Go() {
    for (ChildProcess& worker : workers_) worker.channel().Send("go");
  }
  Result<std::vector<PushPullTimes>> AwaitTimes() {
    std::vector<PushPullTimes> times;
    for (ChildProcess& worker : workers_) {
      CAPSTAN_ASSIGN_OR_RETURN(const std::string line, worker.channel().Receive());
      times.push_back(PushPullTimes::FromLine(line));
    }
    return times;
  }
  double CpuSeconds() const {
    double seconds = 0.0;
    for (const ChildProcess& worker : workers_) seconds += worker.CpuSeconds();
    return seconds;
  }

 private:
  std::vector<ChildProcess> workers_;
};

Result<Readings> MeasureJob(const Case& what) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto cluster, BenchCluster::Start(JobFile(what), what.carrier));
  WorkerGroup workers(what, *cluster);
  CAPSTAN_RETURN_IF_ERROR(workers.AwaitReady());
  const auto cpu = [&] { return cluster->CpuSeconds() + workers.CpuSeconds(); };
  const double before = cpu();
  workers.Go();
  CAPSTAN_ASSIGN_OR_RETURN(const std::vector<PushPullTimes> times, workers.AwaitTimes());
  const double used = cpu() - before;
  double gigabytes = 0.0, rate = 0.0, requests = 0.0, p50 = 0.0, p99 = 0.0;
  for (const PushPullTimes& worker : times) {
    const auto rounds = static_cast<double>(worker.rounds);
    const double moved = 2e-9 * rounds * static_cast<double>(what.load.model_bytes());
    gigabytes += moved;
    rate += moved / worker.seconds;
    requests += 2.0 * rounds * static_cast<double>(what.load.tensors) / worker.seconds;
    p50 = std::max(p50, worker.round_p50 * 1e6);
    p99 = std::max(p99, worker.round_p99 * 1e6);
  }
  return Readings{rate, used / gigabytes, requests, p50, p99};
}

Result<Readings> MeasureRaw(const Case& what) {
  const std::size_t bytes = FrameBytes(what.load);
  CAPSTAN_ASSIGN_OR_RETURN(const RawThroughput raw,
                           what.carrier == Carrier::kShared
                               ? MeasureSharedThroughput(what.servers, bytes, what.load.seconds)
                               : MeasureRawThroughput(what.carrier, what.servers, bytes, what.load.seconds));
  return Readings{raw.gigabytes_per_second, raw.cpu_seconds_per_gigabyte};
}

Result<Readings> MeasureKeyValue(const Case& what) {
  CAPSTAN_ASSIGN_OR_RETURN(
      const RawThroughput raw,
      MeasureRawKeyValue(what.carrier, what.servers, what.load.tensor_bytes, what.load.tensors, what.load.seconds));
  return Readings{raw.gigabytes_per_second, raw.cpu_seconds_per_gigabyte};
}

std::string NameOf(const Case& what) {
  const std::string count = std::to_string(what.servers);
  return std::string("push-pull/") + CarrierName(what.carrier) + "/" + count + "s" + count + "w/" +
         FrameName(what.load.tensor_bytes);
}

// Returns a row of one reading of the job, next to the same reading of another measurement.
Row ComparedRow(std::string name, std::string unit, JobReading reading, Measured limit, std::string limit_name) {
  return {.name = std::move(name),
          .unit = std::move(unit),
          .limit_name = std::move(limit_name),
          .needs = {kJob, limit},
          .sample = [=](const std::vector<Readings>& readings) {
            return Sample{readings[kJob][reading], readings[limit][reading]};
          }};
}

// Returns a row of one reading of the job, without a limit.
Row PlainRow(std::string name, std::string unit, JobReading reading) {
  return {.name = std::move(name),
          .unit = std::move(unit),
          .limit_name = "",
          .needs = {kJob},
          .sample = [=](const std::vector<Readings>& readings) { return Sample{readings[kJob][reading]}; }};
}

RowGroup GroupOf(const Case& what) {
  const std::string name = NameOf(what);
  const std::string limit =
      what.carrier == Carrier::kShared ? "a copy into shared memory and a sum" : "raw ZeroMQ one way";
  const std::string frames = limit + ", frames of " + FrameName(FrameBytes(what.load));
  const std::string bare = "bare ZeroMQ key-value server: push, add, pull, nothing checked";
  const std::string less = " (less is better)";
  RowGroup group;
  group.measurements = {[what] { return MeasureRaw(what); }, [what] { return MeasureJob(what); },
                        [what] { return MeasureKeyValue(what); }};
  group.rows = {ComparedRow(name + "/throughput", "GB/s", kRate, kRaw, frames),
                ComparedRow(name + "/cpu", "s/GB", kCpu, kRaw, frames + less),
                ComparedRow(name + "/throughput-bare", "GB/s", kRate, kKeyValue, bare),
                ComparedRow(name + "/cpu-bare", "s/GB", kCpu, kKeyValue, bare + less),
                PlainRow(name + "/requests", "1/s", kRequests)};
  return group;
}

// Returns the rows of rounds with a model of one tensor of 64 bytes: the worker sends the gradient, the shard applies
// it, and the worker gets the new weights before the next round.
RowGroup RoundTripGroup(Carrier carrier, double seconds) {
  const Case what{carrier, 1, {.tensor_bytes = 64, .tensors = 1, .warmup_rounds = 100, .seconds = seconds}};
  const std::string name = NameOf(what) + "/round-trip";
  RowGroup group;
  group.measurements = {[carrier]() -> Result<Readings> {
                          CAPSTAN_ASSIGN_OR_RETURN(const RawRoundTrip raw,
                                                   MeasureRawRoundTrip(carrier, 64, kRoundTrips));
                          return Readings{raw.median_us, raw.p99_us};
                        },
                        [what] { return MeasureJob(what); }};
  const auto row = [&](const char* suffix, std::size_t job, std::size_t raw) {
    return Row{.name = name + suffix,
               .unit = "us",
               .limit_name = "raw ZeroMQ request and answer (less is better)",
               .needs = {kRaw, kJob},
               .sample = [job, raw](const std::vector<Readings>& readings) {
                 return Sample{readings[kJob][job], readings[kRaw][raw]};
               }};
  };
  group.rows = {row("", kRoundP50, 0), row("-p99", kRoundP99, 1)};
  return group;
}

}  // namespace

Plan PlanPushPull(const PushPullOptions& options) {
  Plan plan;
  plan.rounds = options.rounds;
  for (const Carrier carrier : options.carriers) {
    plan.groups.push_back(RoundTripGroup(carrier, options.seconds));
    for (const int servers : options.sizes) {
      for (const std::size_t bytes : options.tensor_bytes) {
        const PushPullLoad load{
            .tensor_bytes = bytes, .tensors = TensorsOf(bytes, servers), .seconds = options.seconds};
        plan.groups.push_back(GroupOf({carrier, servers, load}));
      }
    }
  }
  return plan;
}

}  // namespace capstan::bench
