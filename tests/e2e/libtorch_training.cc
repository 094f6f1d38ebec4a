// One training of a small network by libtorch: alone, as a worker of a job, or with mistakes; for libtorch_test.py.
//   libtorch_training plain|worker|mistakes [NAME=VALUE...]   plain prints each step's loss, mistakes the answers
#include <capstan/libtorch.h>
#include <fcntl.h>
#include <sys/file.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "worker/data/sampler.h"

namespace {

namespace optim = torch::optim;
using capstan::Status;
using capstan::libtorch::Connect;
using capstan::libtorch::PrepareOptions;
using capstan::libtorch::Reduction;
using capstan::libtorch::Slot;
using capstan::libtorch::Trainer;

constexpr std::int64_t kSamples = 320, kFeatures = 12, kHidden = 24;

// The command line's NAME=VALUE.
class Setup {
 public:
  Setup(int argc, char** argv) {
    for (int i = 2; i < argc; ++i) {
      const std::string word = argv[i];
      const std::size_t at = word.find('=');
      values_[word.substr(0, at)] = word.substr(at + 1);
    }
  }
  std::string text(const std::string& name, const std::string& other = "") const {
    const auto found = values_.find(name);
    return found == values_.end() ? other : found->second;
  }
  double number(const std::string& name, double other = 0) const {
    return values_.count(name) ? std::stod(values_.at(name)) : other;
  }
  std::uint64_t count(const std::string& name, std::uint64_t other = 0) const {
    return static_cast<std::uint64_t>(number(name, static_cast<double>(other)));
  }

 private:
  std::map<std::string, std::string> values_;
};

struct Data {
  torch::Tensor x, y;
};

Data MakeData() {
  torch::manual_seed(11);
  const auto x = torch::randn({kSamples, kFeatures});
  return {x, torch::sin(torch::matmul(x, torch::randn({kFeatures, 1})))};
}

struct NetImpl : torch::nn::Module {
  explicit NetImpl(const Setup& setup) : noisy(setup.number("noisy") == 1) {
    first = register_module("first", torch::nn::Linear(kFeatures, kHidden));
    if (setup.number("noisy") > 0) norm = register_module("norm", torch::nn::BatchNorm1d(kHidden));
    middle = register_module("middle", torch::nn::Linear(kHidden, kHidden));
    last = register_module("last", torch::nn::Linear(kHidden, 1));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    auto hidden = first(x);
    if (norm) hidden = norm(hidden);
    if (noisy) hidden = torch::dropout(hidden, 0.1, is_training());
    return last(torch::tanh(middle(torch::tanh(hidden))));
  }
  bool noisy;
  torch::nn::Linear first{nullptr}, middle{nullptr}, last{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(Net);

// An optimizer with two groups, which differ in learning rate and weight decay. `decay`: of the first.
template <class Optimizer, class Options>
std::unique_ptr<optim::Optimizer> Grouped(Net& model, const Options& options, double decay = 0.02) {
  std::vector<torch::Tensor> weights, others;
  for (const auto& parameter : model->parameters()) (parameter.dim() > 1 ? weights : others).push_back(parameter);
  auto decayed = options, fast = options;
  decayed.weight_decay(decay);
  fast.lr(2 * options.lr());
  return std::make_unique<Optimizer>(
      std::vector<optim::OptimizerParamGroup>{{weights, std::make_unique<Options>(decayed)},
                                              {others, std::make_unique<Options>(fast)}},
      options);
}

// `losses`: the number of samples whose losses are added up.
std::unique_ptr<optim::Optimizer> MakeOptimizer(const std::string& name, Net& model, double losses = 1) {
  if (name == "sgd") return Grouped<optim::SGD>(model, optim::SGDOptions(0.05 / losses), 0.02 * losses);
  if (name == "momentum") {
    return Grouped<optim::SGD>(model, optim::SGDOptions(0.02).momentum(0.9).nesterov(true));
  }
  if (name == "adam-amsgrad") return Grouped<optim::Adam>(model, optim::AdamOptions(0.01).amsgrad(true));
  if (name == "adagrad") return Grouped<optim::Adagrad>(model, optim::AdagradOptions(0.05).lr_decay(0.01));
  if (name == "rmsprop") {
    return Grouped<optim::RMSprop>(model, optim::RMSpropOptions(0.002).momentum(0.9).centered(true).eps(1e-3));
  }
  return Grouped<optim::AdamW>(model, optim::AdamWOptions(0.01));
}

// Sets the groups' rates for a step, from the rates at the beginning.
std::function<void(std::uint64_t)> WarmUp(optim::Optimizer& optimizer) {
  std::vector<double> first;
  for (const auto& group : optimizer.param_groups()) first.push_back(group.options().get_lr());
  return [&optimizer, first](std::uint64_t step) {
    const auto at = static_cast<double>(step);
    const double factor = std::min(1.0, (at + 1) / 10) * std::pow(0.99, at);
    for (std::size_t i = 0; i < first.size(); ++i) optimizer.param_groups()[i].options().set_lr(factor * first[i]);
  };
}

// Trains one step as libtorch does, with the samples that the job would choose. Returns the loss.
double PlainStep(const Setup& setup, const Data& data, Net& model, optim::Optimizer& optimizer, std::uint64_t step) {
  std::vector<std::uint64_t> samples;
  capstan::train::SlotSamples({1, kSamples, 64, 1}, capstan::Step(step), capstan::SlotIndex(0), &samples);
  const auto rows = torch::tensor(std::vector<std::int64_t>(samples.begin(), samples.end()));
  optimizer.zero_grad();
  const auto loss = torch::mse_loss(model->forward(data.x.index_select(0, rows)), data.y.index_select(0, rows));
  loss.backward();
  if (setup.number("clip") > 0) torch::nn::utils::clip_grad_norm_(model->parameters(), setup.number("clip"));
  if (setup.number("clip_value") > 0) {
    torch::nn::utils::clip_grad_value_(model->parameters(), setup.number("clip_value"));
  }
  optimizer.step();
  return loss.item<double>();
}

void PrintBuffers(Net& model) {
  for (const auto& buffer : model->named_buffers()) {
    std::printf("%s %.9g\n", buffer.key().c_str(), buffer.value().to(torch::kFloat).sum().item<double>());
  }
}

void Plain(const Setup& setup) {
  const Data data = MakeData();
  torch::manual_seed(5);
  Net model(setup);
  const auto optimizer = MakeOptimizer(setup.text("kind"), model);
  optim::StepLR scheduler(*optimizer, 7, 0.8);
  const auto warm_up = WarmUp(*optimizer);
  for (std::uint64_t step = 0; step < setup.count("steps"); ++step) {
    if (setup.text("schedule") == "warmup") warm_up(step);
    std::printf("%.9g\n", PlainStep(setup, data, model, *optimizer, step));
    if (setup.text("schedule") == "steplr") scheduler.step();
  }
  PrintBuffers(model);
}

// Waits at the gates of gate.py.
void WaitAtGates(std::uint64_t step) {
  const char* const gates = std::getenv("CAPSTAN_TEST_GATES");
  std::istringstream words(gates == nullptr ? "" : gates);
  for (std::string word; words >> word;) {
    const std::size_t at = word.find(':');
    if (step < std::stoull(word.substr(0, at))) continue;
    const int file = open(word.substr(at + 1).c_str(), O_RDONLY);
    flock(file, LOCK_SH);
    close(file);
  }
}

// Computes a slot in pieces of setup's `piece` samples.
Status ComputeSlot(const Setup& setup, const Data& data, Net& model, Trainer& trainer, const Slot& slot) {
  const std::size_t piece = setup.count("piece", slot.samples);
  const bool sums = setup.text("reduction") == "sum";
  for (std::size_t at = 0; at < slot.rows.size(); at += piece) {
    const std::size_t end = std::min(slot.rows.size(), at + piece);
    const auto rows = torch::tensor(std::vector<std::int64_t>(slot.rows.begin() + static_cast<std::ptrdiff_t>(at),
                                                              slot.rows.begin() + static_cast<std::ptrdiff_t>(end)));
    auto loss = torch::mse_loss(model->forward(data.x.index_select(0, rows)), data.y.index_select(0, rows));
    if (sums) loss = loss * static_cast<double>(end - at);
    CAPSTAN_RETURN_IF_ERROR(
        trainer.Backward(loss, {.samples = end - at, .reduction = sums ? Reduction::kSum : Reduction::kMean}));
  }
  if (setup.number("clip") > 0) CAPSTAN_RETURN_IF_ERROR(trainer.ClipNorm(setup.number("clip")));
  if (setup.number("clip_value") > 0) CAPSTAN_RETURN_IF_ERROR(trainer.ClipValue(setup.number("clip_value")));
  CAPSTAN_RETURN_IF_ERROR(trainer.Log({"pieces", 1.0, 1.0}));
  return trainer.Step();
}

// Writes statistics and parameters as the job lays them out.
void WriteWeights(const std::string& path, Net& model) {
  std::ofstream file(path, std::ios::binary);
  const auto write = [&file](const torch::Tensor& values) {
    file.write(static_cast<const char*>(values.data_ptr()), static_cast<std::streamsize>(values.nbytes()));
  };
  for (const auto& buffer : model->named_buffers()) {
    if (buffer.value().scalar_type() == torch::kFloat) write(buffer.value());
  }
  for (const auto& parameter : model->parameters()) write(parameter.data());
}

Status Work(const Setup& setup) {
  const Data data = MakeData();
  torch::manual_seed(5);
  Net model(setup);
  const auto optimizer = MakeOptimizer(setup.text("kind"), model, setup.text("reduction") == "sum" ? 64 : 1);
  optim::StepLR scheduler(*optimizer, 7, 0.8);
  PrepareOptions options;
  options.samples = kSamples;
  if (setup.text("schedule") == "warmup") options.schedule = WarmUp(*optimizer);
  if (setup.text("schedule") == "steplr") options.scheduler = &scheduler;
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection, Connect());
  CAPSTAN_ASSIGN_OR_RETURN(const auto trainer, connection->Prepare(*model, *optimizer, options));
  while (true) {
    CAPSTAN_ASSIGN_OR_RETURN(const auto slot, trainer->NextSlot());
    if (!slot) break;
    WaitAtGates(slot->step);
    CAPSTAN_RETURN_IF_ERROR(ComputeSlot(setup, data, model, *trainer, *slot));
  }
  if (!setup.text("weights").empty()) WriteWeights(setup.text("weights"), model);
  PrintBuffers(model);
  for (std::uint64_t step = trainer->step(); step < setup.count("until"); ++step) {  // without capstan
    if (options.schedule) options.schedule(step);
    std::printf("%.9g\n", PlainStep(setup, data, model, *optimizer, step));
    if (options.scheduler != nullptr) scheduler.step();
  }
  std::printf("rank %d main %d step %d norm %d\n", static_cast<int>(trainer->rank().value_or(99)), trainer->is_main(),
              static_cast<int>(trainer->step()), trainer->gradient_norm() > 0);
  return {};
}

// The model, optimizer and connection that a mistake is made with. The program has not joined the job yet.
struct Scene {
  Data data = MakeData();
  Net model = nullptr;
  std::unique_ptr<optim::Optimizer> optimizer;
  PrepareOptions options;
  std::unique_ptr<Trainer> trainer;
  Slot slot;

  Status Prepare() {
    CAPSTAN_ASSIGN_OR_RETURN(const auto connection, Connect({.join_deadline = std::chrono::seconds(20)}));
    CAPSTAN_ASSIGN_OR_RETURN(trainer, connection->Prepare(*model, *optimizer, options));
    return {};
  }
  Status Begin() {
    CAPSTAN_RETURN_IF_ERROR(Prepare());
    CAPSTAN_ASSIGN_OR_RETURN(const auto next, trainer->NextSlot());
    slot = *next;
    return {};
  }
  torch::Tensor loss() {
    const auto rows = torch::tensor(slot.rows);
    return torch::mse_loss(model->forward(data.x.index_select(0, rows)), data.y.index_select(0, rows));
  }
  // Begins and computes the gradient of a slot.
  Status Compute() {
    CAPSTAN_RETURN_IF_ERROR(Begin());
    return trainer->Backward(loss());
  }
};

using Mistake = std::function<Status(Scene&)>;

// Mistakes that end before the process has joined the job.
std::map<std::string, Mistake> MistakesBefore() {
  return {
      {"another optimizer",
       [](Scene& scene) {
         scene.optimizer = std::make_unique<optim::Adam>(scene.model->parameters());
         return scene.Prepare();
       }},
      {"an optimizer with a closure",
       [](Scene& scene) {
         scene.optimizer = std::make_unique<optim::LBFGS>(scene.model->parameters());
         return scene.Prepare();
       }},
      {"an option of the job file",
       [](Scene& scene) {
         scene.optimizer =
             std::make_unique<optim::AdamW>(scene.model->parameters(), optim::AdamWOptions().amsgrad(true));
         return scene.Prepare();
       }},
      {"steps before",
       [](Scene& scene) {
         scene.model->forward(scene.data.x).mean().backward();
         scene.optimizer->step();
         return scene.Prepare();
       }},
      {"a parameter in no group",
       [](Scene& scene) {
         scene.optimizer = std::make_unique<optim::AdamW>(scene.model->first->parameters());
         return scene.Prepare();
       }},
      {"a parameter of another model",
       [](Scene& scene) {
         scene.optimizer->add_param_group({{torch::ones({3}, torch::requires_grad())}});
         return scene.Prepare();
       }},
      {"another type",
       [](Scene& scene) {
         scene.model->to(torch::kDouble);
         return scene.Prepare();
       }},
      {"two schedules",
       [](Scene& scene) {
         optim::StepLR scheduler(*scene.optimizer, 7);
         scene.options.scheduler = &scheduler;
         scene.options.schedule = [](std::uint64_t) {};
         return scene.Prepare();
       }},
      {"a cumulative norm",
       [](Scene& scene) {
         scene.model->register_module("extra",
                                      torch::nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(3).momentum(c10::nullopt)));
         scene.optimizer = std::make_unique<optim::AdamW>(scene.model->parameters());
         return scene.Prepare();
       }},
  };
}

// Mistakes of a loop.
std::map<std::string, Mistake> MistakesWithin() {
  return {
      {"backward by hand",
       [](Scene& scene) {
         CAPSTAN_RETURN_IF_ERROR(scene.Begin());
         scene.loss().backward();
         return scene.trainer->Step();
       }},
      {"backward by hand before",
       [](Scene& scene) {
         CAPSTAN_RETURN_IF_ERROR(scene.Begin());
         scene.loss().backward();
         return scene.trainer->Backward(scene.loss());
       }},
      {"no step",
       [](Scene& scene) {
         CAPSTAN_RETURN_IF_ERROR(scene.Compute());
         return scene.trainer->NextSlot().status();
       }},
      {"the optimizer's step",
       [](Scene& scene) {
         CAPSTAN_RETURN_IF_ERROR(scene.Compute());
         scene.optimizer->step();
         return scene.trainer->Step();
       }},
      {"clipping by libtorch",
       [](Scene& scene) {
         CAPSTAN_RETURN_IF_ERROR(scene.Compute());
         torch::nn::utils::clip_grad_norm_(scene.model->parameters(), 1e-3);
         return scene.trainer->Step();
       }},
      {"a rate by hand",
       [](Scene& scene) {
         CAPSTAN_RETURN_IF_ERROR(scene.Begin());
         scene.optimizer->param_groups()[0].options().set_lr(0.5);
         return scene.trainer->Backward(scene.loss());
       }},
      {"weights by hand",
       [](Scene& scene) {
         CAPSTAN_RETURN_IF_ERROR(scene.Compute());
         scene.model->last->weight.data().clamp_(-0.01, 0.01);
         return scene.trainer->Step();
       }},
      {"a sum",
       [](Scene& scene) {
         CAPSTAN_RETURN_IF_ERROR(scene.Begin());
         return scene.trainer->Backward(scene.model->forward(scene.data.x).sum());
       }},
      {"a loss of several numbers",
       [](Scene& scene) {
         CAPSTAN_RETURN_IF_ERROR(scene.Begin());
         return scene.trainer->Backward(scene.model->forward(scene.data.x));
       }},
      {"a loss without a graph",
       [](Scene& scene) {
         CAPSTAN_RETURN_IF_ERROR(scene.Begin());
         const torch::NoGradGuard no_gradients;
         return scene.trainer->Backward(scene.loss());
       }},
      {"an unused parameter",
       [](Scene& scene) {
         CAPSTAN_RETURN_IF_ERROR(scene.Begin());
         return scene.trainer->Backward(scene.model->first(scene.data.x).mean());
       }},
      {"too many samples",
       [](Scene& scene) {
         CAPSTAN_RETURN_IF_ERROR(scene.Begin());
         return scene.trainer->Backward(scene.loss(), {.samples = 100});
       }},
      {"too few samples",
       [](Scene& scene) {
         CAPSTAN_RETURN_IF_ERROR(scene.Begin());
         CAPSTAN_RETURN_IF_ERROR(scene.trainer->Backward(scene.loss(), {.samples = 5}));
         return scene.trainer->Step();
       }},
      {"gradients cleared too early",
       [](Scene& scene) {
         CAPSTAN_RETURN_IF_ERROR(scene.Begin());
         CAPSTAN_RETURN_IF_ERROR(scene.trainer->Backward(scene.loss(), {.samples = 5}));
         scene.optimizer->zero_grad();
         return scene.trainer->Backward(scene.loss());
       }},
      {"a graph that is gone",
       [](Scene& scene) {
         CAPSTAN_RETURN_IF_ERROR(scene.Begin());
         const auto loss = scene.loss();
         loss.backward();
         scene.optimizer->zero_grad();
         return scene.trainer->Backward(loss);
       }},
      {"a buffer that changes",
       [](Scene& scene) {
         CAPSTAN_RETURN_IF_ERROR(scene.Compute());
         scene.model->named_buffers()["seen"].add_(1);
         return scene.trainer->Step();
       }},
      {"a frozen parameter",
       [](Scene& scene) {
         CAPSTAN_RETURN_IF_ERROR(scene.Compute());
         scene.model->last->bias.set_requires_grad(false);
         return scene.trainer->Step();
       }},
      {"a new parameter",
       [](Scene& scene) {
         CAPSTAN_RETURN_IF_ERROR(scene.Compute());
         scene.model->register_parameter("late", torch::ones({2}));
         return scene.trainer->Step();
       }},
      {"a limit of 0",
       [](Scene& scene) {
         CAPSTAN_RETURN_IF_ERROR(scene.Begin());
         return scene.trainer->ClipNorm(0);
       }},
      {"a schedule that throws",
       [](Scene& scene) {
         scene.options.schedule = [](std::uint64_t) { torch::ones({2}).view({3}); };
         return scene.Begin();
       }},
  };
}

// Makes one mistake after the other, each with a connection of its own. Prints the names and the answers.
void MakeMistakes(const Setup& setup) {
  auto mistakes = MistakesBefore();
  mistakes.merge(MistakesWithin());
  for (const auto& [name, make] : mistakes) {
    torch::manual_seed(5);
    Scene scene;
    scene.model = Net(setup);
    scene.model->register_buffer("seen", torch::zeros({2}));
    scene.optimizer = std::make_unique<optim::AdamW>(scene.model->parameters(), optim::AdamWOptions(0.01));
    scene.options.samples = kSamples;
    std::printf("%s: %s\n", name.c_str(), make(scene).ToString().c_str());
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const Setup setup(argc, argv);
  torch::set_num_threads(1);
  if (mode == "plain") return Plain(setup), 0;
  if (mode == "mistakes") return MakeMistakes(setup), 0;
  const Status status = Work(setup);
  if (!status.ok()) std::fprintf(stderr, "libtorch_training: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
