#include "worker/client/fork_guard.h"

#include <unistd.h>

#include <string>
#include <utility>

namespace capstan::client {

namespace {

class ForkGuard : public Client {
 public:
  explicit ForkGuard(std::unique_ptr<Client> client) : client_(std::move(client)) {}
  // A child of fork() has a copy of the client and must not run the client's destructor. So the memory stays until the
  // child exits.
  ~ForkGuard() override {
    if (!owner_.IsThis()) (void)client_.release();
  }

  const std::string& job_file() const override { return client_->job_file(); }
  Status Declare(const WorkerDescription& description) override {
    CAPSTAN_RETURN_IF_ERROR(owner_.Check());
    return client_->Declare(description);
  }
  Result<std::optional<capstan::Work>> NextWork(Deadline deadline) override {
    CAPSTAN_RETURN_IF_ERROR(owner_.Check());
    return client_->NextWork(deadline);
  }
  const float* weights() const override { return owner_.IsThis() ? client_->weights() : nullptr; }
  const std::uint16_t* narrow_weights() const override { return owner_.IsThis() ? client_->narrow_weights() : nullptr; }
  std::uint64_t element_count() const override { return owner_.IsThis() ? client_->element_count() : 0; }
  Status WaitWeights(std::uint32_t first, std::uint32_t last, Deadline deadline) override {
    CAPSTAN_RETURN_IF_ERROR(owner_.Check());
    return client_->WaitWeights(first, last, deadline);
  }
  Status SetHyperParameters(const std::vector<HyperParameters>& groups) override {
    CAPSTAN_RETURN_IF_ERROR(owner_.Check());
    return client_->SetHyperParameters(groups);
  }
  Status SetClipNorm(double max_norm) override {
    CAPSTAN_RETURN_IF_ERROR(owner_.Check());
    return client_->SetClipNorm(max_norm);
  }
  Status SetClipValue(double max_value) override {
    CAPSTAN_RETURN_IF_ERROR(owner_.Check());
    return client_->SetClipValue(max_value);
  }
  Status SetProgramState(std::string_view state) override {
    CAPSTAN_RETURN_IF_ERROR(owner_.Check());
    return client_->SetProgramState(state);
  }
  const std::string& program_state() const override { return client_->program_state(); }
  Status TakeVersion() override {
    CAPSTAN_RETURN_IF_ERROR(owner_.Check());
    return client_->TakeVersion();
  }
  const float* mean_gradient() const override { return owner_.IsThis() ? client_->mean_gradient() : nullptr; }
  Status KeepVersion(const float* weights, std::string_view state) override {
    CAPSTAN_RETURN_IF_ERROR(owner_.Check());
    return client_->KeepVersion(weights, state);
  }
  Result<float*> BeginSlot(std::uint32_t slot, std::uint64_t samples) override {
    CAPSTAN_RETURN_IF_ERROR(owner_.Check());
    return client_->BeginSlot(slot, samples);
  }
  Status GradientReady(std::uint32_t first, std::uint32_t last) override {
    CAPSTAN_RETURN_IF_ERROR(owner_.Check());
    return client_->GradientReady(first, last);
  }
  Status GradientReadyFrom(std::uint32_t tensor, std::uint64_t element) override {
    CAPSTAN_RETURN_IF_ERROR(owner_.Check());
    return client_->GradientReadyFrom(tensor, element);
  }
  Status EndSlot(std::uint32_t slot, const SlotResult& result) override {
    CAPSTAN_RETURN_IF_ERROR(owner_.Check());
    return client_->EndSlot(slot, result);
  }
  Status Barrier(Deadline deadline) override {
    CAPSTAN_RETURN_IF_ERROR(owner_.Check());
    return client_->Barrier(deadline);
  }
  Collectives& collectives() override { return client_->collectives(); }  // checks by itself
  Status Leave(const std::string& reason) override {
    CAPSTAN_RETURN_IF_ERROR(owner_.Check());
    return client_->Leave(reason);
  }
  ClientCounters counters() const override { return owner_.IsThis() ? client_->counters() : ClientCounters(); }

 private:
  std::unique_ptr<Client> client_;
  const OwnerProcess owner_;
};

}  // namespace

OwnerProcess::OwnerProcess() : id_(getpid()) {}

bool OwnerProcess::IsThis() const { return getpid() == id_; }

Status OwnerProcess::Check() const {
  if (IsThis()) return {};
  return Invalid("the client belongs to process " + std::to_string(id_) + ", and this is a child of it (" +
                 std::to_string(getpid()) + "); connect a client of its own after fork()");
}

std::unique_ptr<Client> GuardAgainstFork(std::unique_ptr<Client> client) {
  return std::make_unique<ForkGuard>(std::move(client));
}

}  // namespace capstan::client
