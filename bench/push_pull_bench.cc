#include "bench/push_pull_bench.h"

#include <algorithm>
#include <string>

#include "bench/ps_lite_figures.h"
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

struct Sample {
  double gigabytes_per_second = 0.0;
  double requests_per_second = 0.0;
  double cpu_seconds_per_gigabyte = 0.0;
  double round_p50 = 0.0, round_p99 = 0.0;  // in microseconds
  RawThroughput raw, key_value;
};

// Returns how many tensors the model has: as many as were in flight when ps-lite was measured.
std::size_t TensorsOf(std::size_t tensor_bytes) {
  if (tensor_bytes <= 64u << 10) return 256;
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

Result<Sample> MeasureJob(const Case& what) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto cluster, BenchCluster::Start(JobFile(what), what.carrier));
  WorkerGroup workers(what, *cluster);
  CAPSTAN_RETURN_IF_ERROR(workers.AwaitReady());
  const auto cpu = [&] { return cluster->CpuSeconds() + workers.CpuSeconds(); };
  const double before = cpu();
  workers.Go();
  CAPSTAN_ASSIGN_OR_RETURN(const std::vector<PushPullTimes> times, workers.AwaitTimes());
  const double used = cpu() - before;
  Sample sample;
  double gigabytes = 0.0;
  for (const PushPullTimes& worker : times) {
    const auto rounds = static_cast<double>(worker.rounds);
    const double bytes = 2.0 * rounds * static_cast<double>(what.load.model_bytes());
    gigabytes += bytes * 1e-9;
    sample.gigabytes_per_second += bytes * 1e-9 / worker.seconds;
    sample.requests_per_second += 2.0 * rounds * static_cast<double>(what.load.tensors) / worker.seconds;
    sample.round_p50 = std::max(sample.round_p50, worker.round_p50 * 1e6);
    sample.round_p99 = std::max(sample.round_p99, worker.round_p99 * 1e6);
  }
  sample.cpu_seconds_per_gigabyte = used / gigabytes;
  return sample;
}

template <class Get>
double Median(const std::vector<Sample>& samples, const Get& get) {
  std::vector<double> values;
  for (const Sample& sample : samples) values.push_back(get(sample));
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Add(std::vector<Figure>* figures, std::string name, double value, std::string unit, double limit,
         std::string limit_name) {
  if (limit <= 0.0) limit_name.clear();
  figures->push_back(
      {std::move(name), value, std::move(unit), limit, std::move(limit_name), limit > 0.0 ? value / limit : 0.0});
}

void AddPsLite(const Case& what, const std::string& name, double gigabytes, double cpu, std::vector<Figure>* figures) {
  for (const PsLiteFigure& figure : kPsLiteThroughput) {
    if (figure.carrier != what.carrier || figure.servers != what.servers) continue;
    if (figure.value_bytes != what.load.tensor_bytes) continue;
    Add(figures, name + "/throughput-ps-lite", gigabytes, "GB/s", figure.as_shipped, "ps-lite as it ships, published");
    if (figure.tuned <= 0.0) continue;
    Add(figures, name + "/throughput-ps-lite-tuned", gigabytes, "GB/s", figure.tuned,
        "ps-lite with its allocator tuned, published");
  }
  const double ps_lite_cpu = what.carrier == Carrier::kTcp && what.servers == 1 ? PsLiteCpu(what.load.tensor_bytes) : 0;
  if (ps_lite_cpu > 0) {
    Add(figures, name + "/cpu-ps-lite", cpu, "s/GB", ps_lite_cpu, "ps-lite as it ships, published (less is better)");
  }
}

std::string NameOf(const Case& what) {
  const std::string count = std::to_string(what.servers);
  return std::string("push-pull/") + CarrierName(what.carrier) + "/" + count + "s" + count + "w/" +
         FrameName(what.load.tensor_bytes);
}

void AddFigures(const Case& what, const std::vector<Sample>& samples, std::vector<Figure>* figures) {
  const std::string name = NameOf(what);
  const double gigabytes = Median(samples, [](const Sample& s) { return s.gigabytes_per_second; });
  const double cpu = Median(samples, [](const Sample& s) { return s.cpu_seconds_per_gigabyte; });
  const std::string limit =
      what.carrier == Carrier::kShared ? "a copy into shared memory and a sum" : "raw ZeroMQ one way";
  const std::string frames = limit + ", frames of " + FrameName(FrameBytes(what.load));
  Add(figures, name + "/throughput", gigabytes, "GB/s",
      Median(samples, [](const Sample& s) { return s.raw.gigabytes_per_second; }), frames);
  Add(figures, name + "/cpu", cpu, "s/GB",
      Median(samples, [](const Sample& s) { return s.raw.cpu_seconds_per_gigabyte; }), frames + " (less is better)");
  const std::string bare = "bare ZeroMQ key-value server: push, add, pull, nothing checked";
  Add(figures, name + "/throughput-bare", gigabytes, "GB/s",
      Median(samples, [](const Sample& s) { return s.key_value.gigabytes_per_second; }), bare);
  Add(figures, name + "/cpu-bare", cpu, "s/GB",
      Median(samples, [](const Sample& s) { return s.key_value.cpu_seconds_per_gigabyte; }),
      bare + " (less is better)");
  Add(figures, name + "/requests", Median(samples, [](const Sample& s) { return s.requests_per_second; }), "1/s",
      PsLiteRequests(what.carrier, what.servers, what.load.tensor_bytes), "ps-lite as it ships, published");
  AddPsLite(what, name, gigabytes, cpu, figures);
}

Result<RawThroughput> MeasureLimit(const Case& what) {
  if (what.carrier == Carrier::kShared)
    return MeasureSharedThroughput(what.servers, FrameBytes(what.load), what.load.seconds);
  return MeasureRawThroughput(what.carrier, what.servers, FrameBytes(what.load), what.load.seconds);
}

Status MeasureCase(const Case& what, int repetitions, std::vector<Figure>* figures) {
  std::vector<Sample> samples;
  for (int i = 0; i < repetitions; ++i) {
    CAPSTAN_ASSIGN_OR_RETURN(const RawThroughput raw, MeasureLimit(what));
    CAPSTAN_ASSIGN_OR_RETURN(Sample sample, MeasureJob(what));
    sample.raw = raw;
    CAPSTAN_ASSIGN_OR_RETURN(sample.key_value, MeasureRawKeyValue(what.carrier, what.servers, what.load.tensor_bytes,
                                                                  what.load.tensors, what.load.seconds));
    samples.push_back(sample);
  }
  AddFigures(what, samples, figures);
  return {};
}

std::string RoundTripName(Carrier carrier) {
  return std::string("push-pull/") + CarrierName(carrier) + "/1s1w/64-b/round-trip";
}

// Measures rounds with a model of one tensor of 64 bytes: the worker sends the gradient, the shard applies it, and the
// worker gets the new weights before the next round.
Status MeasureRoundTrip(Carrier carrier, const PushPullOptions& options, std::vector<Figure>* figures) {
  const Case what{carrier, 1, {.tensor_bytes = 64, .tensors = 1, .warmup_rounds = 100, .seconds = options.seconds}};
  std::vector<Sample> samples;
  std::vector<double> raw;
  for (int i = 0; i < options.repetitions; ++i) {
    CAPSTAN_ASSIGN_OR_RETURN(const double one, MeasureRawRoundTrip(carrier, 64, kRoundTrips));
    raw.push_back(one);
    CAPSTAN_ASSIGN_OR_RETURN(const Sample sample, MeasureJob(what));
    samples.push_back(sample);
  }
  std::sort(raw.begin(), raw.end());
  const std::string name = RoundTripName(carrier);
  const double p50 = Median(samples, [](const Sample& s) { return s.round_p50; });
  Add(figures, name, p50, "us", raw[raw.size() / 2], "raw ZeroMQ request and answer (less is better)");
  if (const double ps_lite = PsLiteRoundTrip(carrier); ps_lite > 0.0) {
    Add(figures, name + "-ps-lite", p50, "us", ps_lite, "ps-lite, one push, published (less is better)");
  }
  Add(figures, name + "-p99", Median(samples, [](const Sample& s) { return s.round_p99; }), "us", 0.0, "");
  return {};
}

}  // namespace

Result<std::vector<Figure>> MeasurePushPull(const PushPullOptions& options) {
  std::vector<Figure> figures;
  std::string others;
  const auto measure = [&](const std::string& name, const auto& run) -> Status {
    if (name.find(options.parts.only) == std::string::npos) {
      others += " " + name;
      return {};
    }
    const std::size_t before = figures.size();
    CAPSTAN_RETURN_IF_ERROR(run());
    for (std::size_t i = before; options.parts.measured && i < figures.size(); ++i) options.parts.measured(figures[i]);
    return {};
  };
  for (Carrier carrier : options.carriers) {
    CAPSTAN_RETURN_IF_ERROR(
        measure(RoundTripName(carrier), [&] { return MeasureRoundTrip(carrier, options, &figures); }));
    for (int servers : options.sizes) {
      for (std::size_t bytes : options.tensor_bytes) {
        const Case what{
            carrier, servers, {.tensor_bytes = bytes, .tensors = TensorsOf(bytes), .seconds = options.seconds}};
        CAPSTAN_RETURN_IF_ERROR(
            measure(NameOf(what), [&] { return MeasureCase(what, options.repetitions, &figures); }));
      }
    }
  }
  if (figures.empty()) return Invalid("no case has \"" + options.parts.only + "\" in its name; there are" + others);
  return figures;
}

}  // namespace capstan::bench
