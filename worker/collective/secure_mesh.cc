#include "worker/collective/secure_mesh.h"

#include <pthread.h>

#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/host_port.h"
#include "common/base/mailbox.h"
#include "common/base/process_address.h"
#include "common/base/utf8.h"
#include "common/keys/key_pair.h"
#include "common/wire/messages/error.h"
#include "common/wire/transport.h"
#include "common/wire/zmq_transport.h"
#include "worker/collective/group_admission.h"
#include "worker/collective/mesh_core.h"

namespace capstan::collective {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kIoThreads = 2;  // one can encrypt while the other one decrypts
constexpr std::chrono::hours kPollMax{1};

// Returns why a connection is lost. The error may be the text of another process.
std::string ReasonIn(const Error& error) {
  if (error.code != Code::kRefused) return Excerpt(error.message, kLongExcerptBytesMax);
  return "it does not admit this process, or does not have the key that it published; it may be in another group by "
         "now";
}

struct MeshState {
  MeshCore core{MeshOptions()};
  Outgoings out;
  Transport* transport = nullptr;  // null before the mesh's thread begins and after it has ended
  bool stopping = false;
  bool over = false;  // the mesh's thread has ended: nothing refers to callers' memory any more
};

class SecureMesh final : public Mesh {
 public:
  explicit SecureMesh(const MeshOptions& options) : options_(options) {
    state_.With([&](MeshState& state) { state.core = MeshCore(options); });
  }
  ~SecureMesh() override;

  Status Connect(Rendezvous* rendezvous, Deadline deadline);

  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }
  std::unique_ptr<Transfer> CreateTransfer() override;
  std::uint64_t Enter(Deadline deadline) override {
    return state_.With([&](MeshState& state) { return state.core.Enter(deadline); });
  }
  void Leave() override {
    state_.With([](MeshState& state) { state.core.Leave(); });
  }
  void Abort() override {
    Tell([](MeshState& state) { state.core.Abort(&state.out); });
  }
  Status failure() override {
    return state_.With([this](MeshState& state) { return FailureIn(state); });
  }

  Status Begin(MeshMessage* message) {
    Tell([&](MeshState& state) { state.core.Begin(message, Clock::now(), &state.out); });
    const Status status = failure();
    return status.ok() ? status : Ended();
  }
  Status Await(const MeshMessage& message);

 private:
  // A piece of a message that the transport reads.
  struct Reading {
    SecureMesh* mesh;
    int to;
    const MeshMessage* message;
    std::size_t bytes;
  };

  Status FailureIn(const MeshState& state) const {
    return state.core.failure() ? StatusOf(*state.core.failure(), options_.name_of) : Status();
  }
  std::string Named(int rank) const { return NamesOf(RankSet().set(static_cast<std::size_t>(rank)), options_.name_of); }

  Result<std::string> Listen();
  Result<std::vector<std::string>> Exchange(Rendezvous* rendezvous, std::string address, Deadline deadline);
  Status ConnectTo(const std::vector<std::string>& addresses);
  Status AwaitConnections(Deadline deadline);
  // Calls f(state) on behalf of another thread than the mesh's, which then sends what f has put out.
  template <class F>
  void Tell(const F& f) {
    state_.With([&](MeshState& state) {
      f(state);
      if (!state.out.empty() && state.transport != nullptr) state.transport->Wake();
    });
  }
  // Returns the failure when nothing refers to callers' memory any more.
  Status Ended() {
    state_.AwaitUntil(Deadline::max(), [](const MeshState& state) { return state.over; });
    return failure();
  }

  // Used by the mesh's thread.
  void Run();
  void SpreadFailure();
  void Poll(Deadline until);
  void Take(PeerId from, const Principal& sender, const Message& message);
  void SendAll();
  static void NoteReleased(void* reading);
  std::optional<int> RankOf(PeerId from, const Principal& sender);

  const MeshOptions options_;
  const std::shared_ptr<GroupAdmission> admission_ = std::make_shared<GroupAdmission>();
  // Owned by the thread that connects (while addresses are exchanged, by one that polls), then by the mesh's.
  std::unique_ptr<Transport> transport_;
  std::vector<PeerId> made_, accepted_;  // by rank: the connections that this rank has made, and those made to it
  std::map<PeerId, int> rank_of_;        // of made_
  Guarded<MeshState> state_;
  std::thread thread_;
};

class SecureTransfer final : public Transfer {
 public:
  explicit SecureTransfer(SecureMesh* mesh) : mesh_(mesh) {}

  Status Send(int to, Tag tag, std::span<const std::byte> bytes) override {
    message_ = {to, tag, bytes.size(), bytes.data()};
    return mesh_->Begin(&message_);
  }
  Status Receive(int from, Tag tag, std::span<std::byte> bytes) override {
    message_ = {from, tag, bytes.size(), nullptr, bytes.data()};
    return mesh_->Begin(&message_);
  }
  Status Wait() override { return mesh_->Await(message_); }

 private:
  SecureMesh* const mesh_;
  MeshMessage message_;
};

std::unique_ptr<Transfer> SecureMesh::CreateTransfer() { return std::make_unique<SecureTransfer>(this); }

Status SecureMesh::Await(const MeshMessage& message) {
  state_.With([&](MeshState& state) { state.core.Await(&message); });
  // The core ends the mesh when the call's deadline has passed.
  state_.AwaitUntil(Deadline::max(), [&](const MeshState& state) { return message.done || state.over; });
  return state_.With([&](MeshState& state) {
    state.core.Await(nullptr);
    return message.done ? Status() : FailureIn(state);
  });
}

// ---- forming the mesh ----------------------------------------------------------------------------------------------

Status SecureMesh::Connect(Rendezvous* rendezvous, Deadline deadline) {
  const Deadline::duration time = deadline - Clock::now();
  CAPSTAN_ASSIGN_OR_RETURN(std::string address, Listen());
  CAPSTAN_ASSIGN_OR_RETURN(const std::vector<std::string> all, Exchange(rendezvous, std::move(address), deadline));
  if (all.size() != static_cast<std::size_t>(size())) {
    return Invalid("the ranks' exchange of addresses gave " + std::to_string(all.size()) + " of them to " +
                   std::to_string(size()) + " ranks; start all workers with one number of ranks");
  }
  CAPSTAN_RETURN_IF_ERROR(ConnectTo(all));
  state_.With([this](MeshState& state) { state.transport = transport_.get(); });
  thread_ = std::thread([this] { Run(); });
  return AwaitConnections(Clock::now() + time);
}

// Polls the transport meanwhile: its port is open, and what strangers do there must not queue up.
Result<std::vector<std::string>> SecureMesh::Exchange(Rendezvous* rendezvous, std::string address, Deadline deadline) {
  std::jthread poller([this](const std::stop_token& stop) {
    pthread_setname_np(pthread_self(), "mesh-exchange");
    while (!stop.stop_requested()) transport_->Poll(kPollMax, [](PeerId, const Principal&, const Message&) {});
  });
  Result<std::vector<std::string>> all = rendezvous->Exchange(rank(), std::move(address), deadline);
  poller.request_stop();
  transport_->Wake();
  poller.join();
  return all;
}

// Returns the address at which the other ranks reach this one.
Result<std::string> SecureMesh::Listen() {
  TransportOptions options;
  options.frame_bytes_max = PieceExchange::kPieceBytes;
  options.io_threads = kIoThreads;
  options.reports_breaks = true;
  options.keys = std::make_shared<const KeyPair>(NewKeyPair());
  options.admission = admission_;
  transport_ = CreateZmqTransport(options);
  const Result<std::string> bound = transport_->Bind(EndpointOf(WithHost(options_.address, ":0")));
  if (bound.ok()) return AddressOf(*bound);
  return Unreachable(bound.status().message() +
                     "; give an address of this machine that the other ranks can reach, in numbers, by --address");
}

Status SecureMesh::ConnectTo(const std::vector<std::string>& addresses) {
  std::map<PublicKey, Principal> members;
  made_.resize(addresses.size());
  accepted_.resize(addresses.size());
  for (int other = 0; other < size(); ++other) {
    const auto place = static_cast<std::size_t>(other);
    if (other == rank()) continue;
    const std::string& address = addresses[place];
    const Result<PublicKey> key = ParsePublicKey("its key", KeyInAddress(address));
    if (!IsProcessAddress(address) || !key.ok()) {
      return Invalid(Named(other) + " gave no address with a key; start all workers with one build and one job file");
    }
    if (!members.emplace(*key, Principal{Role::kWorker, std::to_string(other)}).second) {
      return Invalid(Named(other) + " gave the key of another rank");
    }
    Result<PeerId> peer = transport_->Connect(EndpointOf(address), Role::kWorker);
    if (!peer.ok()) return Invalid(Named(other) + ": " + peer.status().message());
    made_[place] = *peer;
    rank_of_.emplace(*peer, other);
  }
  admission_->Admit(std::move(members));
  return {};
}

Status SecureMesh::AwaitConnections(Deadline deadline) {
  state_.AwaitUntil(deadline, [](const MeshState& state) { return state.core.unconnected().none() || state.over; });
  return state_.With([&](const MeshState& state) -> Status {
    const std::optional<MeshFailure>& failure = state.core.failure();
    const RankSet missing = failure ? failure->missing : state.core.unconnected();
    if (missing.none()) return {};
    const std::string why = failure && !failure->why.empty() ? ": " + failure->why : "";
    return Unreachable("cannot connect to " + NamesOf(missing, options_.name_of) + why +
                       "; see that it runs and can be reached");
  });
}

SecureMesh::~SecureMesh() {
  admission_->Close();
  state_.With([](MeshState& state) {
    state.stopping = true;
    if (state.transport != nullptr) state.transport->Wake();
  });
  if (thread_.joinable()) thread_.join();
}

// ---- the mesh's thread ---------------------------------------------------------------------------------------------

void SecureMesh::Run() {
  pthread_setname_np(pthread_self(), "mesh");
  for (bool ending = false; !ending;) {
    const Deadline wake = state_.With([](MeshState& state) { return state.core.wake(); });
    Poll(wake);
    ending = state_.With([](MeshState& state) {
      state.core.Tick(Clock::now(), &state.out);
      return state.stopping || state.core.failure().has_value();
    });
    SendAll();
  }
  SpreadFailure();
  state_.With([](MeshState& state) { state.transport = nullptr; });
  transport_.reset();  // from here on no caller's memory is read any more
  state_.Change([](MeshState& state) { state.over = true; });
}

// Waits until the other ranks know of the failure, if there is one. Missing ranks may never answer.
void SecureMesh::SpreadFailure() {
  const Deadline start = Clock::now();
  for (;;) {
    const RankSet missing = state_.With([](MeshState& state) { return state.core.missing(); });
    const RankSet untold = state_.With([](MeshState& state) { return state.core.untold(); });
    const Deadline until = start + ((untold & ~missing).any() ? options_.answer : options_.failure_send);
    if (untold.none() || Clock::now() >= until) return;
    Poll(until);
  }
}

void SecureMesh::Poll(Deadline until) {
  transport_->Poll(until - Clock::now(), [this](PeerId from, const Principal& sender, const Message& message) {
    Take(from, sender, message);
  });
}

void SecureMesh::Take(PeerId from, const Principal& sender, const Message& message) {
  const std::optional<int> rank = RankOf(from, sender);
  if (!rank) return;
  state_.Change([&](MeshState& state) {
    if (const auto* error = message.header.As<Error>()) {
      return state.core.OnBreak(*rank, ReasonIn(*error), Clock::now(), &state.out);
    }
    state.core.On(*rank, message, &state.out);
  });
  SendAll();
}

// Returns which rank the connection is to. The keys of the group tell, not what the other side says.
std::optional<int> SecureMesh::RankOf(PeerId from, const Principal& sender) {
  if (const auto made = rank_of_.find(from); made != rank_of_.end()) return made->second;
  if (sender.role != Role::kWorker) return std::nullopt;
  const int rank = std::stoi(sender.name);  // as ConnectTo has named the key's owner
  accepted_[static_cast<std::size_t>(rank)] = from;
  return rank;
}

// Called by libzmq's threads too, and for the last time before the transport's destruction ends.
void SecureMesh::NoteReleased(void* context) {
  const std::unique_ptr<Reading> reading(static_cast<Reading*>(context));
  reading->mesh->state_.Change(
      [&](MeshState& state) { state.core.OnReleased(reading->to, reading->message, reading->bytes); });
}

void SecureMesh::SendAll() {
  const Outgoings out = state_.With([](MeshState& state) { return std::exchange(state.out, {}); });
  for (const Outgoing& outgoing : out) {
    const PeerId to = (outgoing.is_answer ? accepted_ : made_)[static_cast<std::size_t>(outgoing.to)];
    Slice payload;
    if (!outgoing.payload.empty()) {
      // The transport only reads it.
      auto* const data = const_cast<std::byte*>(outgoing.payload.data());
      auto* const reading = new Reading{this, outgoing.to, outgoing.message, outgoing.payload.size()};
      payload = WholeBuffer(WrapForeign(data, outgoing.payload.size(), &NoteReleased, reading));
    }
    const Status sent = transport_->Send(to, {outgoing.header, std::move(payload)});
    if (sent.ok()) continue;
    const std::string why = outgoing.is_answer ? "the connection that it had made broke" : sent.message();
    state_.Change([&](MeshState& state) { state.core.OnBreak(outgoing.to, why, Clock::now(), &state.out); });
  }
}

}  // namespace

Result<std::shared_ptr<Mesh>> CreateSecureMesh(const MeshOptions& options, Rendezvous* rendezvous, Deadline deadline) {
  CAPSTAN_RETURN_IF_ERROR(CheckRanks(options));
  auto mesh = std::make_shared<SecureMesh>(options);
  CAPSTAN_RETURN_IF_ERROR(mesh->Connect(rendezvous, deadline));
  return std::shared_ptr<Mesh>(std::move(mesh));
}

}  // namespace capstan::collective
