#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <capstan/libtorch.h>
#include <torch/version.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/hash.h"
#include "common/config/job/job_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job_config.h"
#include "worker/libtorch/environment.h"
#include "worker/libtorch/optimizer_rules.h"
#include "worker/libtorch/server_trainer.h"
#include "worker/libtorch/torch_call.h"

namespace capstan::libtorch {

namespace {

Status CheckJob(const JobConfig& job) {
  if (job.mode() != Mode::kSync) {
    return Unsupported(
        "job \"" + job.name() +
        "\" has another job.mode than \"sync\", which is the one that programs of libtorch's take part in: "
        "set job.mode = \"sync\" in the job file");
  }
  if (job.model.kind != ModelKind::kClient) {
    return Unsupported(
        "job \"" + job.name() +
        "\" trains a built-in model: set model.kind = \"client\" in the job file, and the program has the "
        "model");
  }
  return {};
}

std::uint64_t HashOf(const std::string& text) {
  Hasher hasher;
  hasher.Add(text);
  return hasher.Digest();
}

WorkerDescription Describe(const ModelValues& values, const PrepareOptions& options, std::vector<float>* given) {
  WorkerDescription description;
  description.tensors = values.Tensors(given);
  description.given = given->data();
  description.numeric_class = "libtorch " TORCH_VERSION ", " + std::to_string(at::get_num_threads()) + " threads, cpu";
  description.numeric_fingerprint = HashOf(at::show_config());
  Hasher data;
  data.Add(values.constants_hash());
  data.Add(options.samples);
  data.Add(static_cast<std::uint64_t>(options.order));
  data.Add(options.data_fingerprint);
  description.data_fingerprint = data.Digest();
  return description;
}

class ServerConnection final : public Connection {
 public:
  ServerConnection(std::unique_ptr<Client> client, Identity identity)
      : client_(std::move(client)), identity_(std::move(identity)), job_file_(client_->job_file()) {}

  const std::string& job_file() const override { return job_file_; }

  Result<std::unique_ptr<Trainer>> Prepare(::torch::nn::Module& model, ::torch::optim::Optimizer& optimizer,
                                           const PrepareOptions& options) override {
    if (client_ == nullptr) {
      return Invalid("Prepare() comes once: train a second model in a job and a connection of its own");
    }
    CAPSTAN_ASSIGN_OR_RETURN(const JobConfig job, ParseJobConfig(job_file_, "the job file"));
    CAPSTAN_RETURN_IF_ERROR(CheckJob(job));
    std::unique_ptr<Trainer> trainer;
    const Status made = CallTorch("Prepare()", [&]() -> Status {
      CAPSTAN_RETURN_IF_ERROR(CheckOptimizer(optimizer, job));
      CAPSTAN_ASSIGN_OR_RETURN(trainer, Make(model, optimizer, options, job));
      return {};
    });
    if (!made.ok()) return made;
    return trainer;
  }

 private:
  Result<std::unique_ptr<Trainer>> Make(const ::torch::nn::Module& model, ::torch::optim::Optimizer& optimizer,
                                        const PrepareOptions& options, const JobConfig& job) {
    CAPSTAN_ASSIGN_OR_RETURN(auto values, ModelValues::Create(model, optimizer));
    CAPSTAN_ASSIGN_OR_RETURN(auto rates, Rates::Create(optimizer, options));
    std::vector<float> given;
    CAPSTAN_RETURN_IF_ERROR(client_->Declare(Describe(*values, options, &given)));
    CAPSTAN_ASSIGN_OR_RETURN(auto last, LastVersion::Connect(identity_.client, job.steps(),
                                                             std::chrono::duration<double>(job.limits.lease)));
    return std::unique_ptr<Trainer>(std::make_unique<ServerTrainer>(
        ServerTrainer::Parts{.client = std::move(client_),
                             .values = std::move(values),
                             .optimizer = &optimizer,
                             .identity = identity_,
                             .options = options,
                             .job = {job.steps(), job.job.seed, job.job.global_batch, job.slots()},
                             .rates = std::move(rates),
                             .last = std::move(last)}));
  }

  std::unique_ptr<Client> client_;  // null after Prepare()
  Identity identity_;
  std::string job_file_;
};

}  // namespace

Result<std::unique_ptr<Connection>> Connect(const ConnectOptions& options) {
  CAPSTAN_ASSIGN_OR_RETURN(Identity identity, IdentityOf(options));
  CAPSTAN_ASSIGN_OR_RETURN(auto client, Client::Connect(identity.client));
  return std::unique_ptr<Connection>(std::make_unique<ServerConnection>(std::move(client), std::move(identity)));
}

}  // namespace capstan::libtorch
