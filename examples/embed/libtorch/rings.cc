// A training program of libtorch's as a worker: a network learns on which of three rings a point lies. Any number of
// copies may run, and come and go.
//   capstan launch job.toml -- ./rings [FILE]      writes the trained model to FILE
#include <capstan/libtorch.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

constexpr std::int64_t kTraining = 2048, kHeldOut = 512, kRings = 3;
constexpr double kPi = 3.14159265358979323846;

struct Net : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(norm(first(x)));
    return last(torch::dropout(torch::relu(middle(x)), 0.1, is_training()));
  }
  torch::nn::Linear first = register_module("first", torch::nn::Linear(2, 32));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(32));
  torch::nn::Linear middle = register_module("middle", torch::nn::Linear(32, 32));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(32, kRings));
};

// Points with some noise, and the rings to which they belong; the same in every process.
std::pair<torch::Tensor, torch::Tensor> Points() {
  torch::manual_seed(11);
  const auto rings = torch::randint(kRings, {kTraining + kHeldOut});
  const auto radius = rings + 1 + 0.15 * torch::randn(rings.sizes());
  const auto angle = 2 * kPi * torch::rand(rings.sizes());
  return {torch::stack({radius * angle.cos(), radius * angle.sin()}, 1), rings};
}

capstan::Status Train(const char* file) {
  const auto [points, rings] = Points();
  torch::manual_seed(1);
  const auto model = std::make_shared<Net>();
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(0.01).weight_decay(0.01));

  CAPSTAN_ASSIGN_OR_RETURN(const auto connection, capstan::libtorch::Connect());
  capstan::libtorch::PrepareOptions options;
  options.samples = kTraining;
  options.schedule = [&optimizer](std::uint64_t step) {  // a cosine, from the step only
    const double rate = 0.005 * (1 + std::cos(kPi * static_cast<double>(step) / 160));
    for (auto& group : optimizer.param_groups()) group.options().set_lr(rate);
  };
  CAPSTAN_ASSIGN_OR_RETURN(const auto trainer, connection->Prepare(*model, optimizer, options));

  while (true) {
    CAPSTAN_ASSIGN_OR_RETURN(const auto slot, trainer->NextSlot());
    if (!slot) break;  // the job is done
    const auto rows = torch::tensor(slot->rows);
    const auto loss =
        torch::nn::functional::cross_entropy(model->forward(points.index_select(0, rows)), rings.index_select(0, rows));
    CAPSTAN_RETURN_IF_ERROR(trainer->Backward(loss));
    CAPSTAN_RETURN_IF_ERROR(trainer->ClipNorm(1.0));
    CAPSTAN_RETURN_IF_ERROR(trainer->Step());
  }

  if (!trainer->is_main()) return {};
  model->eval();
  const torch::NoGradGuard no_gradients;
  const auto answer = model->forward(points.slice(0, kTraining)).argmax(1);
  const auto right = (answer == rings.slice(0, kTraining)).to(torch::kFloat).mean();
  std::printf("held out: %.1f %% right\n", 100 * right.item<double>());
  if (file != nullptr) torch::save(model, file);
  return {};
}

int main(int argc, char** argv) {
  torch::set_num_threads(1);  // the number of threads decides the last bits: the same in every copy
  const capstan::Status status = Train(argc > 1 ? argv[1] : nullptr);
  if (!status.ok()) std::fprintf(stderr, "rings: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
