#include "bench/train_bench.h"

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "bench/bench_cluster.h"
#include "bench/bench_folder.h"
#include "bench/child_process.h"
#include "common/base/random.h"
#include "common/config/job/data_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job_config.h"
#include "common/data/encoding.h"
#include "kernels/base/context.h"
#include "worker/device/model_factory.h"
#include "worker/train/slot_computer.h"
#include "worker/train/worker_process.h"

namespace capstan::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWarmupSteps = 3;
constexpr int kTorchAbsent = 77;

struct Subject {
  std::string name;         // the name in torch_train.py
  std::string model, data;  // in the job file
  int batch = 0;            // samples per worker
  int units = 1;            // how many units a sample counts as
  std::string unit;
  double steps_per_second = 0.0;  // a rough estimate
  std::string precision = "fp32";
  std::string mode = "sync";

  Subject By(const std::string& other) const {
    Subject subject = *this;
    subject.mode = other;
    return subject;
  }
  Subject In(const std::string& other) const {
    Subject subject = *this;
    subject.precision = other;
    return subject;
  }
};

// Random images and labels in MNIST's format, in a folder that is removed with this object.
class Pictures {
 public:
  static constexpr std::uint32_t kCount = 2048, kRows = 28, kColumns = 28, kClasses = 10;

  Pictures() {
    RandomStream random(1, kCount);
    Write("images", {0x803, kCount, kRows, kColumns}, kCount * kRows * kColumns, 256, &random);
    Write("labels", {0x801, kCount}, kCount, kClasses, &random);
  }

  std::string DataSection() const {
    return "kind = \"idx\"\npath = \"" + folder_.path("images") + "\"\nlabels = \"" + folder_.path("labels") + "\"\n";
  }

 private:
  // Writes a file: `head` as big-endian numbers, then random bytes below `below`.
  void Write(const std::string& name, std::initializer_list<std::uint32_t> head, std::size_t bytes, std::uint32_t below,
             RandomStream* random) {
    std::string content;
    for (std::uint32_t number : head) {
      for (int shift = 24; shift >= 0; shift -= 8) content += static_cast<char>(number >> shift & 0xff);
    }
    for (std::size_t i = 0; i < bytes; ++i) content += static_cast<char>(random->Below(below));
    std::ofstream out(folder_.path(name), std::ios::binary);
    out << content << std::flush;
    CAPSTAN_CHECK(out.good());
  }

  BenchFolder folder_;
};

std::array<Subject, 2> Subjects(const Pictures& pictures) {
  return {Subject{.name = "mlp",
                  .model = "kind = \"mlp\"\nhidden = [1024, 1024]\n",
                  .data = pictures.DataSection(),
                  .batch = 128,
                  .units = 1,
                  .unit = "samples/s",
                  .steps_per_second = 60},
          Subject{.name = "gpt",
                  .model = "kind = \"gpt\"\nlayers = 4\nheads = 4\nwidth = 256\ncontext = 128\n",
                  .data = "kind = \"synthetic\"\nsamples = 2048\nvocabulary = 256\n",
                  .batch = 16,
                  .units = 128,
                  .unit = "tokens/s",
                  .steps_per_second = 2}};
}

int StepsOf(const Subject& subject, double seconds) {
  return std::max(2, static_cast<int>(subject.steps_per_second * seconds));
}

// Returns the file of a job with `servers` servers and as many workers. MeasureCompute passes 1 and starts no server.
std::string TrainJobFile(const Subject& subject, int servers, int steps) {
  const std::string count = std::to_string(servers);
  return "[job]\nname = \"bench\"\nmode = \"" + subject.mode + "\"\nsteps = " + std::to_string(kWarmupSteps + steps) +
         "\nglobal_batch = " + std::to_string(servers * subject.batch) + "\nslots = " + count + "\n[model]\n" +
         subject.model + "[data]\n" + subject.data +
         "[optimizer]\nkind = \"sgd\"\nlr = 1e-3\n[snapshot]\nevery_seconds = 0\n[cluster]\nservers = " + count +
         "\nworkers = " + count + "\nmin_workers = " + count + "\n[worker]\nthreads = 1\nprecision = \"" +
         subject.precision + "\"\n";
}

// ---- without network or optimizer ----------------------------------------------------------------------------------

Status Compute(Channel& parent, const std::string& job_file, int steps) {
  CAPSTAN_ASSIGN_OR_RETURN(const JobConfig config, ParseJobConfig(job_file, "the benchmark's job file"));
  CAPSTAN_ASSIGN_OR_RETURN(const std::unique_ptr<train::Dataset> data, train::OpenDataset(config, "/"));
  kernels::CpuContext context(1);
  CAPSTAN_ASSIGN_OR_RETURN(const std::unique_ptr<train::JobModel> model,
                           train::CreateJobModel(context, config, data->spec()));
  std::uint64_t elements = 0;
  for (const TensorSpec& tensor : model->tensors()) elements += tensor.ElementCount();
  std::vector<float> weights(elements, 0.01F), gradient(elements);
  std::vector<std::uint16_t> narrow(elements);
  if (const Encoding encoding = EncodingOf(config); encoding != Encoding::kFp32) {
    Encode(encoding, weights, reinterpret_cast<std::byte*>(narrow.data()));
  }
  train::SlotComputer computer(config, *data, *model);
  Clock::time_point start;
  for (int step = 0; step < kWarmupSteps + steps; ++step) {
    if (step == kWarmupSteps) start = Clock::now();
    const auto samples = computer.Samples(Step{static_cast<std::uint64_t>(step)}, 0);
    CAPSTAN_RETURN_IF_ERROR(computer
                                .Gradient(Step{static_cast<std::uint64_t>(step)}, 0, samples, 1.0F,
                                          {weights.data(), narrow.data()}, gradient.data(), {})
                                .status());
  }
  const std::chrono::duration<double> took = Clock::now() - start;
  parent.Send(std::to_string(steps * static_cast<int>(config.job.global_batch) / took.count()));
  (void)parent.Receive();
  return {};
}

Result<double> MeasureCompute(const Subject& subject, int steps) {
  ChildProcess child =
      ChildProcess::Fork([&](Channel& parent) { return Compute(parent, TrainJobFile(subject, 1, steps), steps); });
  CAPSTAN_ASSIGN_OR_RETURN(const std::string line, child.channel().Receive(std::chrono::minutes(5)));
  return std::stod(line);
}

// ---- a whole job ---------------------------------------------------------------------------------------------------

Status RunWorker(Channel& parent, const std::string& coordinator, const std::string& name) {
  train::WorkerOptions options;
  options.coordinator = coordinator;
  options.name = name;
  options.data_root = "/";
  const Status status = train::RunWorker(options, std::make_shared<monitoring::WorkerMetrics>(),
                                         std::make_shared<monitoring::TransportMetrics>());
  CAPSTAN_RETURN_IF_ERROR(status);
  parent.Send("done");
  (void)parent.Receive();
  return {};
}

double NumberAfter(const std::string& line, const std::string& key) {
  const std::size_t at = line.find("\"" + key + "\":");
  return at == line.npos ? 0.0 : std::stod(line.substr(at + key.size() + 3));
}

// Returns the samples per second over all steps in the file, except the first kWarmupSteps.
double RateFrom(const std::string& path) {
  std::ifstream file(path);
  double samples = 0.0, seconds = 0.0;
  std::string line;
  for (int step = 0; std::getline(file, line); ++step) {
    if (step < kWarmupSteps) continue;
    samples += NumberAfter(line, "samples");
    seconds += NumberAfter(line, "seconds");
  }
  return seconds > 0.0 ? samples / seconds : 0.0;
}

// The processes share memory, as those of a job do that capstan launch starts on one machine.
Result<double> MeasureJob(const Subject& subject, int servers, int steps) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto cluster,
                           BenchCluster::Start(TrainJobFile(subject, servers, steps), Carrier::kShared));
  std::vector<ChildProcess> workers;
  for (int i = 0; i < servers; ++i) {
    const std::string name = "bench-" + std::to_string(i);
    workers.push_back(
        ChildProcess::Fork([&](Channel& parent) { return RunWorker(parent, cluster->coordinator(), name); }));
  }
  for (ChildProcess& worker : workers) {
    CAPSTAN_RETURN_IF_ERROR(worker.channel().Receive(std::chrono::minutes(5)).status());
  }
  return RateFrom(cluster->run_dir() + "/metrics.jsonl");
}

// ---- PyTorch -------------------------------------------------------------------------------------------------------

// Runs torch_train.py and returns the words that it prints; none if PyTorch is not installed.
Result<std::vector<std::string>> RunTorch(const std::string& python, const std::string& arguments) {
  const std::string command = "'" + (python.empty() ? "/usr/bin/python3" : python) +
                              "' -B " CAPSTAN_BENCH_SOURCES "/torch_train.py " + arguments;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return Unreachable("cannot run " + command);
  std::array<char, 256> line{};
  const bool answered = std::fgets(line.data(), line.size(), pipe) != nullptr;
  const int status = pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kTorchAbsent) {
    if (python.empty()) return std::vector<std::string>{};
    return Invalid(python + " has no PyTorch; install it there, or name another interpreter with --python");
  }
  if (!answered || status != 0) return Unreachable("failed: " + command);
  std::istringstream words(line.data());
  return std::vector<std::string>{std::istream_iterator<std::string>(words), {}};
}

// Returns the version of PyTorch; empty if it is not installed.
Result<std::string> TorchVersion(const TrainOptions& options) {
  if (options.beside == Beside::kNothing) return std::string();
  CAPSTAN_ASSIGN_OR_RETURN(const std::vector<std::string> words, RunTorch(options.python, "--version"));
  return words.empty() ? std::string() : words.front();
}

Result<Readings> MeasureTorch(const std::string& python, const std::string& arguments) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::vector<std::string> words, RunTorch(python, arguments));
  if (words.empty()) return Unreachable("PyTorch is gone since this benchmark has begun");
  return Readings{std::strtod(words.front().c_str(), nullptr)};
}

// ---- both ----------------------------------------------------------------------------------------------------------

struct TrainJob {
  std::string name, limit_name;  // the limit's is printed after PyTorch's version
  std::function<Result<double>(const Subject&, int steps)> run;
};

// Jobs with the same limit.
struct TrainJobs {
  std::string torch_arguments;  // behind the model: number of processes; then the steps, then `torch_option`
  std::string torch_option;
  std::vector<TrainJob> jobs;
};

std::vector<TrainJobs> AllTrainJobs() {
  const std::string computing = "1 thread, forward and backward", updating = "1 process, 1 thread, with its SGD";
  const std::string two = ", DistributedDataParallel over gloo, 2 processes";
  return {
      {"1",
       " --no-update",
       {{"compute", ", " + computing, [](const Subject& s, int steps) { return MeasureCompute(s, steps); }},
        {"compute-bf16", " in fp32, " + computing,
         [](const Subject& s, int steps) { return MeasureCompute(s.In("bf16"), steps); }}}},
      {"1",
       "",
       {{"1s1w", ", " + updating, [](const Subject& s, int steps) { return MeasureJob(s, 1, steps); }},
        {"1s1w-bf16", " in fp32, " + updating,
         [](const Subject& s, int steps) { return MeasureJob(s.In("bf16"), 1, steps); }}}},
      {"2",
       "",
       {{"2s2w", two, [](const Subject& s, int steps) { return MeasureJob(s, 2, steps); }},
        {"2w-allreduce", two, [](const Subject& s, int steps) { return MeasureJob(s.By("allreduce"), 2, steps); }}}}};
}

bool IsIn(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Returns a row of the measurement `ours`, next to the measurement 0: PyTorch, if `version` is not empty.
Row TrainRow(const Subject& subject, const TrainJob& job, std::size_t ours, const std::string& version) {
  Row row{.name = "train/" + subject.name + "/" + job.name,
          .unit = subject.unit,
          .limit_name = version.empty() ? "PyTorch is not installed" : "PyTorch " + version + job.limit_name,
          .needs = {ours},
          .sample = {}};
  if (!version.empty()) row.needs.push_back(0);
  row.sample = [ours, units = subject.units](const std::vector<Readings>& readings) {
    return Sample{readings[ours][0] * units, readings[0].empty() ? 0.0 : readings[0][0] * units};
  };
  return row;
}

RowGroup TrainGroup(const Subject& subject, const TrainJobs& jobs, const TrainOptions& options,
                    const std::string& version, const std::shared_ptr<Pictures>& pictures) {
  const int steps = StepsOf(subject, options.seconds);
  const std::string torch = subject.name + " " + jobs.torch_arguments + " " + std::to_string(steps) + jobs.torch_option;
  RowGroup group;
  group.measurements = {[=, python = options.python] { return MeasureTorch(python, torch); }};
  for (const TrainJob& job : jobs.jobs) {
    if (!IsIn(options.jobs, job.name)) continue;
    group.rows.push_back(TrainRow(subject, job, group.measurements.size(), version));
    group.measurements.push_back([subject, steps, run = job.run, pictures]() -> Result<Readings> {
      CAPSTAN_ASSIGN_OR_RETURN(const double rate, run(subject, steps));
      return Readings{rate};
    });
  }
  return group;
}

}  // namespace

Result<Plan> PlanTraining(const TrainOptions& options) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string version, TorchVersion(options));
  const auto pictures = std::make_shared<Pictures>();
  Plan plan;
  plan.rounds = options.rounds;
  for (const Subject& subject : Subjects(*pictures)) {
    if (!IsIn(options.models, subject.name)) continue;
    for (const TrainJobs& jobs : AllTrainJobs()) {
      plan.groups.push_back(TrainGroup(subject, jobs, options, version, pictures));
    }
  }
  return plan;
}

}  // namespace capstan::bench
