#include <capstan/reader.h>
#include <sys/random.h>

#include <algorithm>

#include "common/base/name.h"
#include "common/base/process_address.h"
#include "common/keys/key_file.h"
#include "common/wire/permissions.h"
#include "common/wire/zmq_transport.h"
#include "worker/client/fork_guard.h"
#include "worker/client/reader_core.h"
#include "worker/session/shard_connections.h"

namespace capstan {

namespace {

using client::OwnerProcess;
using client::ReaderCore;
using session::ShardConnections;

constexpr Instant kTick = std::chrono::milliseconds(10);

Instant Now() { return std::chrono::steady_clock::now().time_since_epoch(); }

// A reader's connections and its core. They run on the caller's thread.
struct Machinery {
  explicit Machinery(const TransportOptions& options) : transport(CreateZmqTransport(options)) {}
  std::unique_ptr<Transport> transport;
  session::ShardConnections connections{transport.get()};
  std::unique_ptr<ReaderCore> core;
  Outbox out;
};

class NetworkReader : public Reader {
 public:
  explicit NetworkReader(std::unique_ptr<Machinery> machinery) : machinery_(std::move(machinery)) {}
  // A child of fork() has a copy of the reader and must not run the reader's destructor. So the memory stays until the
  // child exits.
  ~NetworkReader() override {
    if (!owner_.IsThis()) {
      (void)machinery_.release();
      return;
    }
    core().Leave(&machinery_->out);
    SendOut();
  }

  Status WaitForJobFile(Deadline deadline) {
    core().Refresh();
    return Run([this] { return core().fresh(); }, deadline);
  }

  const std::string& job_file() const override { return core().job_file(); }
  Result<JobProgress> progress(Deadline deadline) override;
  Result<std::optional<PulledVersion>> Pull(const PullOptions& options, Deadline deadline) override;
  const std::vector<ReaderTensor>& tensors() const override { return tensors_; }
  std::uint64_t element_count() const override { return core().catalog() ? core().catalog()->element_count() : 0; }
  const float* weights() const override { return owner_.IsThis() ? core().array(0) : nullptr; }
  const std::vector<std::string>& state_names() const override { return core().state_names(); }
  const float* state(std::size_t index) const override {
    const bool known = owner_.IsThis() && index < core().state_names().size();
    return known ? core().array(1 + static_cast<std::uint32_t>(index)) : nullptr;
  }

 private:
  ReaderCore& core() const { return *machinery_->core; }
  template <class Done>
  Status Run(const Done& done, Deadline deadline);
  void SendOut();

  std::unique_ptr<Machinery> machinery_;
  const OwnerProcess owner_;
  std::vector<ReaderTensor> tensors_;
};

// A message that the transport refuses counts as lost: the core repeats it later.
void NetworkReader::SendOut() {
  for (const Envelope& envelope : machinery_->out.envelopes) {
    if (envelope.to.value != 0) (void)machinery_->transport->Send(envelope.to, envelope.message).ok();
  }
  machinery_->out.Clear();
}

// Runs the core until done() is true, the core fails, or the deadline has passed. Even then, messages that have arrived
// are handled.
template <class Done>
Status NetworkReader::Run(const Done& done, Deadline deadline) {
  bool in_time = true;
  while (true) {
    const Instant now = Now();
    core().Tick(now, &machinery_->out);
    SendOut();
    const Instant left = std::max(deadline.time_since_epoch() - now, Instant{});
    const Instant timeout = in_time ? std::min(left, kTick) : Instant{};
    machinery_->transport->Poll(timeout, [&](PeerId from, const Principal& sender, const Message& message) {
      if (!MaySend(sender, message.header, Receiver::kReader)) return;
      core().Handle(from, message, Now(), &machinery_->out);
      SendOut();
    });
    CAPSTAN_RETURN_IF_ERROR(core().status());
    if (done()) return {};
    if (!in_time) return Timeout("waited for " + core().WaitingFor() + " until the deadline");
    in_time = std::chrono::steady_clock::now() < deadline;
  }
}

Result<JobProgress> NetworkReader::progress(Deadline deadline) {
  CAPSTAN_RETURN_IF_ERROR(owner_.Check());
  CAPSTAN_RETURN_IF_ERROR(WaitForJobFile(deadline));
  const View& view = core().view();
  return JobProgress{static_cast<JobState>(view.phase), view.step.value, view.generation.value, view.slot_count,
                     view.message};
}

Result<std::optional<PulledVersion>> NetworkReader::Pull(const PullOptions& options, Deadline deadline) {
  CAPSTAN_RETURN_IF_ERROR(owner_.Check());
  ReaderCore::Request request;
  if (options.newer_than) request.newer_than = Step{*options.newer_than};
  request.optimizer_state = options.optimizer_state;
  core().Ask(request);
  CAPSTAN_RETURN_IF_ERROR(Run([this] { return core().answered(); }, deadline));
  if (!core().reading()) return std::optional<PulledVersion>();
  if (tensors_.empty()) {
    for (const TensorSpec& tensor : core().catalog()->tensors()) tensors_.push_back({tensor.name, tensor.shape});
  }
  const ReaderCore::Reading& reading = *core().reading();
  return std::optional<PulledVersion>(
      {reading.step.value, reading.generation.value, reading.done, reading.updates, reading.gradient_norm});
}

}  // namespace

Result<std::unique_ptr<Reader>> Reader::Connect(const ReaderOptions& options) {
  CAPSTAN_RETURN_IF_ERROR(CheckName("a reader's name", options.name));
  CAPSTAN_ASSIGN_OR_RETURN(const std::string coordinator,
                           ReadProcessAddress("the coordinator's address", options.coordinator));
  TransportOptions transport;
  CAPSTAN_ASSIGN_OR_RETURN(transport.keys, ReadKeys(options.key_file));
  auto machinery = std::make_unique<Machinery>(transport);
  client::ReaderCoreOptions core;
  core.name = options.name;
  if (getrandom(&core.nonce, sizeof core.nonce, 0) != sizeof core.nonce) {
    return Unsupported("the system gives no random numbers (getrandom)");
  }
  CAPSTAN_ASSIGN_OR_RETURN(core.coordinator,
                           machinery->transport->Connect(EndpointOf(coordinator), Role::kCoordinator));
  core.coordinator_address = coordinator;
  core.silence_limit = options.join_deadline;
  core.connect = [raw = machinery.get()](const std::string& endpoint) {
    const Result<PeerId> peer = raw->connections.PeerOf(endpoint);
    return peer.ok() ? *peer : PeerId{};
  };
  core.disconnect = [raw = machinery.get()](PeerId peer) { raw->connections.Forget(peer); };
  machinery->core = std::make_unique<ReaderCore>(std::move(core));
  auto reader = std::make_unique<NetworkReader>(std::move(machinery));
  CAPSTAN_RETURN_IF_ERROR(
      reader->WaitForJobFile(std::chrono::steady_clock::now() + options.join_deadline + std::chrono::seconds(2)));
  return std::unique_ptr<Reader>(std::move(reader));
}

}  // namespace capstan
