#include "common/wire/zmq_transport.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "common/base/process_address.h"
#include "common/keys/admission.h"
#include "common/keys/key_pair.h"
#include "common/wire/gatekeeper.h"
#include "common/wire/header_seal.h"
#include "common/wire/key_owners.h"
#include "common/wire/local_endpoint.h"
#include "common/wire/messages/error.h"
#include "common/wire/reply_limit.h"
#include "common/wire/routing_id.h"
#include "common/wire/shared_payloads.h"
#include "common/wire/watched_socket.h"
#include "common/wire/wire_codec.h"
#include "common/wire/zmq_call.h"
#include "common/wire/zmq_endpoint.h"
#include "common/wire/zmq_frames.h"

namespace capstan {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMessagesPerSocketMax = 32;  // in one pass over all sockets
// An encrypted frame has 33 bytes more: a command's name, a number used once, flags, and what proves that it is
// genuine.
constexpr std::size_t kSealBytes = 33;
constexpr int kLingerMs = 250, kHandshakeMs = 3000, kConnectMs = 5000;
constexpr int kReconnectMs = 20, kReconnectMaxMs = 1000;
// Many heartbeats may go unanswered: an answer waits behind the frame before it, and on a slow line (40 KB/s) a frame
// of 1 MiB takes 26 s. A dead machine is noticed sooner, because it does not acknowledge TCP's bytes.
constexpr int kHeartbeatsMissed = 20;     // missed heartbeats before a connection is given up
constexpr int kHeartbeatMaxMs = 300'000;  // so that ZMTP can say how long it may be silent: at most 6,553 s
constexpr int kUntakenMs = 15'000;        // longest time for sent bytes without the other machine's acknowledgement
// How long a peer may close handshakes before the other of its two keys is tried: one that is ending closes some, too.
constexpr auto kKeyTriedFor = std::chrono::milliseconds(200);
// The connecting side connects again if it has sent a message and received none for this many heartbeat intervals: more
// than one bit of the handshake, which carries its routing id, may have been damaged.
constexpr int kHeartbeatsUnheard = 40;
constexpr std::chrono::nanoseconds kPollMax = std::chrono::hours(1);
constexpr auto kTendEvery = std::chrono::milliseconds(50);
constexpr int kReadyAtOnce = 256;
// The most sockets of a transport: three for each peer that it connects to (the peer's socket and both ends of the
// socket's monitor), for 4,096 peers and some to spare.
constexpr int kSocketsMax = 3 * (4096 + 64);
// A descriptor that epoll watches is named by the PeerId of its dealer socket, which is below 2^40, or by one of these
// numbers.
constexpr std::uint64_t kRouterReady = std::uint64_t{1} << 40, kWakeReady = std::uint64_t{1} << 41;
constexpr std::uint64_t kEventsReady = std::uint64_t{1} << 42;  // added for the descriptor of a socket's monitor
constexpr std::uint64_t kMemoryReady = std::uint64_t{1} << 43;

void SetKey(zmq::socket_ref socket, int option, const std::array<std::uint8_t, kKeyBytes>& key) {
  CAPSTAN_CHECK(zmq_setsockopt(socket.handle(), option, key.data(), key.size()) == 0);
}

Result<Header> OpenAndDecode(std::span<const std::byte> sealed, std::size_t payload_bytes) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::span<const std::byte> header, OpenHeader(sealed, payload_bytes));
  return DecodeHeader(header);
}

// Returns a descriptor that becomes readable when the socket may have something to receive.
int DescriptorOf(zmq::socket_ref socket) {
  int descriptor = -1;
  CAPSTAN_CHECK(CallZmq([&] { return descriptor = socket.get(zmq::sockopt::fd), true; }) == 0);
  return descriptor;
}

// Returns the number that the process at the other end has for this dealer.
PeerId CallerOf(zmq::socket_ref dealer) {
  std::array<std::byte, 8> id{};
  std::size_t size = id.size();
  CAPSTAN_CHECK(zmq_getsockopt(dealer.handle(), ZMQ_ROUTING_ID, id.data(), &size) == 0);
  return PeerOf(std::span(id.data(), size));
}

// ---- the transport -------------------------------------------------------------------------------------------------

class ZmqTransport final : public Transport {
 public:
  ZmqTransport(const TransportOptions& options, TransportCounters* counters)
      : options_(options),
        counters_(counters != nullptr ? counters : &own_counters_),
        wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
        ready_fd_(epoll_create1(EPOLL_CLOEXEC)),
        owners_(options.admission) {
    CallZmq([&] { return context_.emplace(options_.io_threads, kSocketsMax), true; });
    Watch(wake_fd_, kWakeReady);
    if (options_.memory == nullptr) return;
    shared_ = std::make_unique<SharedPayloads>(options_.memory, options_.on_note);
    Watch(shared_->descriptor(), kMemoryReady);
  }
  ~ZmqTransport() override {
    if (shared_) shared_->StopListening();  // before another process may listen here
    dealers_.clear();
    closing_.clear();
    router_ = {};
    shared_.reset();
    gatekeeper_.reset();
    context_.reset();
    if (ready_fd_ >= 0) close(ready_fd_);
    if (wake_fd_ >= 0) close(wake_fd_);
  }
  ZmqTransport(const ZmqTransport&) = delete;
  ZmqTransport& operator=(const ZmqTransport&) = delete;

  Result<std::string> Bind(const std::string& endpoint) override;
  Result<PeerId> Connect(const std::string& endpoint, Role role) override;
  void Disconnect(PeerId peer) override;
  Status Send(PeerId to, const Message& message) override;
  int Poll(std::chrono::nanoseconds timeout, const OnMessage& on_message) override;
  void Wake() override;

 private:
  struct Dealer {
    WatchedSocket socket;
    std::string endpoint;
    std::vector<PublicKey> keys;  // of which the peer has to prove one; the first is tried now
    Principal peer;
    Clock::time_point key_tried_since = Clock::now();
    std::optional<Clock::time_point> unanswered_since = {};
    bool due = false;  // whether it is in due_
  };

  // `server_key`: the key that the peers of a dealer have to prove.
  Result<WatchedSocket> Open(zmq::socket_type type, const std::optional<PublicKey>& server_key = {});
  void SetOptions(zmq::socket_type type, zmq::socket_t* socket) const;  // throws zmq::error_t
  void SetKeys(const std::optional<PublicKey>& server_key, zmq::socket_t* socket) const;
  // Tries the other of two keys if the peer has closed handshakes for the first. Returns whether it did.
  static bool TryOtherKey(Dealer* dealer, Clock::time_point now);
  Status SendFailure(PeerId to, int error);
  std::string Describe(PeerId peer) const;

  void Watch(int descriptor, std::uint64_t what);
  void Watch(WatchedSocket* socket, std::uint64_t what);
  void Unwatch(WatchedSocket* socket);
  // Makes the next Drain read the dealer's socket. Call it after any libzmq call on the socket: such a call may clear
  // the readiness of its descriptor.
  void MakeDue(std::uint64_t peer, Dealer* dealer);
  // Waits until a descriptor is ready, but not at all if a dealer is due. Makes the dealers of ready descriptors due,
  // and takes connection events.
  void AwaitReady(std::chrono::nanoseconds timeout);
  // Reads the router's socket and those of all dealers that are due. Returns the number of messages delivered.
  int Drain(const OnMessage& on_message);
  int DrainSocket(zmq::socket_ref socket, PeerId dealer, const OnMessage& on_message);
  // Receives the next message of `socket`, and gives it to `on_message` if it is valid. Returns false if there is none.
  bool ReceiveMessage(zmq::socket_ref socket, PeerId dealer, const OnMessage& on_message, int* delivered);
  // Returns the sender of a message from router_ (the null PeerId) or from a dealer that exists; nothing if it may no
  // longer take part.
  std::optional<Principal> SenderOf(PeerId dealer, zmq::message_t* header);
  // Sends the last frames of a message: its payload, or where it lies in this process's memory.
  int SendPayloadTo(PeerId to, zmq::socket_ref socket, const Slice& payload);
  struct Received {
    Slice payload;
    std::shared_ptr<const MappedRegion> lent;  // where it lies, if it is another process's; else null
  };
  // Returns the payload that a message refers to, or a copy. `dealer`: as in ReceiveMessage.
  Result<Received> TakeReferred(PeerId from, PeerId dealer, const Principal& sender, const Header& header,
                                std::span<const std::byte> reference);
  // Tells `on_message` that a dealer cannot be connected or that its connection broke, if that is new.
  void ReportFailure(std::uint64_t peer, const OnMessage& on_message);
  void Reject(PeerId from, const Status& why);
  void TendConnections();
  bool TakeWake();

  const TransportOptions options_;
  TransportCounters own_counters_;
  TransportCounters* const counters_;

  // Wake uses wake_fd_ and wake_pending_ from any thread. The flag saves a system call when no thread has called Wake.
  const int wake_fd_;
  const int ready_fd_;  // the owner thread's epoll of all descriptors
  std::atomic<bool> wake_pending_{false};

  // Used only by the owner's thread.
  std::optional<zmq::context_t> context_;    // none if it could not be made
  WatchedSocket router_;                     // made by the first Bind
  std::unique_ptr<Gatekeeper> gatekeeper_;   // made by the first Bind, with keys
  Principal callers_{Role::kThisUser, ""};   // of peers without keys at router_; kAnyone if it has a TCP address
  KeyOwners owners_;                         // of the keys whose messages router_ receives
  std::map<std::uint64_t, Dealer> dealers_;  // by PeerId
  std::vector<WatchedSocket> closing_;       // sockets that were disconnected while their messages were being delivered
  std::uint64_t dealers_made_ = 0, sockets_made_ = 0;
  std::vector<std::uint64_t> due_;  // dealers that may have something to read
  Clock::time_point next_tend_{};
  std::vector<std::byte> header_;           // reused by Send
  std::unique_ptr<SharedPayloads> shared_;  // null: every payload goes through a socket
  bool draining_ = false;
  ReplyLimit replies_;
};

Result<WatchedSocket> ZmqTransport::Open(zmq::socket_type type, const std::optional<PublicKey>& server_key) {
  if (wake_fd_ < 0 || ready_fd_ < 0 || !context_)
    return Unreachable("no socket can be made: too many open files; raise ulimit -n");
  zmq::socket_t socket;
  const int failure = CallZmq([&] { return socket = zmq::socket_t(*context_, type), true; });
  if (failure != 0) return Unreachable("no socket can be made: " + ReasonOf(failure, true));
  CAPSTAN_CHECK(CallZmq([&] { return SetOptions(type, &socket), true; }) == 0);
  if (options_.keys != nullptr && (type == zmq::socket_type::router || server_key)) SetKeys(server_key, &socket);
  return WatchedSocket(&*context_, std::move(socket), "connections-" + std::to_string(++sockets_made_), counters_);
}

void ZmqTransport::SetOptions(zmq::socket_type type, zmq::socket_t* socket) const {
  namespace option = zmq::sockopt;
  const int heartbeat = static_cast<int>(std::clamp<std::int64_t>(options_.heartbeat.count(), 1, kHeartbeatMaxMs));
  const std::size_t seal = options_.keys == nullptr ? 0 : kSealBytes;
  const bool limited = type == zmq::socket_type::router && options_.listen_frame_bytes_max != 0;
  const std::size_t frame = limited ? options_.listen_frame_bytes_max : options_.frame_bytes_max;
  socket->set(option::maxmsgsize, static_cast<std::int64_t>(frame + seal));
  socket->set(option::linger, kLingerMs);
  socket->set(option::sndhwm, options_.queue_messages_max);
  socket->set(option::rcvhwm, options_.queue_messages_max);
  socket->set(option::handshake_ivl, kHandshakeMs);
  socket->set(option::heartbeat_ivl, heartbeat);
  socket->set(option::heartbeat_timeout, heartbeat * kHeartbeatsMissed);
  socket->set(option::heartbeat_ttl, heartbeat * kHeartbeatsMissed);
  socket->set(option::tcp_maxrt, kUntakenMs);
  socket->set(option::reconnect_ivl, kReconnectMs);
  socket->set(option::reconnect_ivl_max, kReconnectMaxMs);
  socket->set(option::connect_timeout, kConnectMs);
  if (type == zmq::socket_type::router) {
    // Of the processes that connect to a Unix socket, the kernel tells the user. cppzmq has no name for this option.
    const uid_t user = geteuid();
    CAPSTAN_CHECK(zmq_setsockopt(socket->handle(), ZMQ_IPC_FILTER_UID, &user, sizeof user) == 0);
    socket->set(option::router_mandatory, true);  // errors instead of silent loss
    socket->set(option::router_handover, true);   // a new connection is not locked out by its half-dead predecessor
  } else {
    const RoutingId id = RandomRoutingId();
    socket->set(option::routing_id, zmq::buffer(id.bytes.data(), id.size));
  }
}

void ZmqTransport::SetKeys(const std::optional<PublicKey>& server_key, zmq::socket_t* socket) const {
  SetKey(*socket, ZMQ_CURVE_SECRETKEY, options_.keys->secret_key.bytes());
  if (server_key) {
    SetKey(*socket, ZMQ_CURVE_PUBLICKEY, options_.keys->public_key.bytes);
    SetKey(*socket, ZMQ_CURVE_SERVERKEY, server_key->bytes);
    return;
  }
  socket->set(zmq::sockopt::curve_server, true);
  socket->set(zmq::sockopt::zap_domain, "capstan");
  // Without this, libzmq admits everybody if nobody answers its questions. cppzmq has no name for this option.
  constexpr int kEnforceDomain = 93, kOn = 1;
  CAPSTAN_CHECK(zmq_setsockopt(socket->handle(), kEnforceDomain, &kOn, sizeof kOn) == 0);
}

Result<std::string> ZmqTransport::Bind(const std::string& endpoint) {
  CAPSTAN_ASSIGN_OR_RETURN(std::string address, CheckEndpoint(WithoutKey(endpoint)));
  CAPSTAN_RETURN_IF_ERROR(CheckOwnKey(endpoint, options_.keys.get()));
  if (options_.keys != nullptr && gatekeeper_ == nullptr) {
    if (!context_) return Unreachable("no socket can be made: too many open files; raise ulimit -n");
    CAPSTAN_CHECK(options_.admission != nullptr);
    CAPSTAN_ASSIGN_OR_RETURN(gatekeeper_, Gatekeeper::Start(&*context_, options_.admission));
  }
  // libzmq takes the path of a Unix socket from the process that listens there.
  if (IsLocalAddress(address) && IsServed(address)) return EndpointFailure("listen on", endpoint, EADDRINUSE);
  if (!router_) {
    CAPSTAN_ASSIGN_OR_RETURN(router_, Open(zmq::socket_type::router));
    Watch(&router_, kRouterReady);
  }
  if (address.starts_with("tcp://") && address.ends_with(":0")) address.back() = '*';
  std::string bound;
  const int failure = CallZmq([&] {
    router_.get().bind(address);
    bound = router_.get().get(zmq::sockopt::last_endpoint);
    return true;
  });
  if (failure != 0) return EndpointFailure("listen on", endpoint, failure);
  if (const Principal callers = SenderAt(bound); callers.role == Role::kAnyone) callers_ = callers;
  if (shared_ && IsLocalAddress(bound)) shared_->Listen(bound);
  return options_.keys == nullptr ? bound : WithKey(bound, TextOf(options_.keys->public_key));
}

Result<PeerId> ZmqTransport::Connect(const std::string& endpoint, Role role) {
  CAPSTAN_ASSIGN_OR_RETURN(const Target target, TargetOf(endpoint, options_.keys != nullptr));
  const std::optional<PublicKey> key = target.keys.empty() ? std::nullopt : std::optional(target.keys.front());
  CAPSTAN_ASSIGN_OR_RETURN(WatchedSocket socket, Open(zmq::socket_type::dealer, key));
  const int failure = CallZmq([&] { return socket.get().connect(target.address), true; });
  if (failure != 0) return EndpointFailure("connect to", endpoint, failure);
  const PeerId peer{++dealers_made_};
  CAPSTAN_CHECK(!CallsUs(peer));
  const Principal sender = key ? Principal{role, ""} : SenderAt(target.address);
  Dealer made{.socket = std::move(socket), .endpoint = target.address, .keys = target.keys, .peer = sender};
  Dealer& dealer = dealers_.emplace(peer.value, std::move(made)).first->second;
  Watch(&dealer.socket, peer.value);
  MakeDue(peer.value, &dealer);
  if (shared_ && role == Role::kServer && IsLocalAddress(target.address))
    shared_->Connect(peer, target.address, CallerOf(dealer.socket.get()).value);
  return peer;
}

void ZmqTransport::Disconnect(PeerId peer) {
  const auto found = dealers_.find(peer.value);
  if (found == dealers_.end()) return;
  Unwatch(&found->second.socket);
  if (shared_) shared_->Disconnect(peer);
  if (draining_) closing_.push_back(std::move(found->second.socket));
  dealers_.erase(found);
}

std::string ZmqTransport::Describe(PeerId peer) const {
  const auto found = dealers_.find(peer.value);
  return found == dealers_.end() ? "peer " + std::to_string(peer.value) : found->second.endpoint;
}

Status ZmqTransport::SendFailure(PeerId to, int error) {
  if (error == EAGAIN) {
    ++counters_->sends_blocked;
    return {Code::kBusy, "the queue to " + Describe(to) + " is full"};
  }
  ++counters_->sends_unreachable;
  return Unreachable(Describe(to) + " is not connected");
}

Status ZmqTransport::Send(PeerId to, const Message& message) {
  zmq::socket_ref socket = router_.get();
  if (!CallsUs(to)) {
    const auto dealer = dealers_.find(to.value);
    socket = dealer == dealers_.end() ? zmq::socket_ref() : dealer->second.socket.get();
    if (socket && !dealer->second.unanswered_since) dealer->second.unanswered_since = Clock::now();
    if (socket) MakeDue(to.value, &dealer->second);
  }
  if (!socket) return SendFailure(to, EHOSTUNREACH);
  CAPSTAN_RETURN_IF_ERROR(EncodeHeader(message.header, &header_));
  SealHeader(message.payload.size, &header_);
  if (std::max(header_.size(), message.payload.size) > options_.frame_bytes_max) {
    return Invalid("a message of " + std::to_string(header_.size()) + " + " + std::to_string(message.payload.size) +
                   " bytes; each part may have " + std::to_string(options_.frame_bytes_max));
  }
  const bool has_payload = !message.payload.empty();
  int failure = 0;
  if (CallsUs(to)) {
    const RoutingId id = RoutingIdOf(to);
    failure = SendFrame(socket, std::as_bytes(std::span(id.bytes.data(), id.size)), zmq::send_flags::sndmore);
  }
  if (failure == 0)
    failure = SendFrame(socket, header_, has_payload ? zmq::send_flags::sndmore : zmq::send_flags::none);
  if (failure == 0 && has_payload) failure = SendPayloadTo(to, socket, message.payload);
  if (failure != 0) return SendFailure(to, failure);
  ++counters_->messages_out;
  counters_->header_bytes_out += header_.size();
  counters_->payload_messages_out += has_payload ? 1 : 0;
  counters_->payload_bytes_out += message.payload.size;
  return {};
}

int ZmqTransport::SendPayloadTo(PeerId to, zmq::socket_ref socket, const Slice& payload) {
  const std::optional<PayloadReference> reference = shared_ ? shared_->Refer(to, payload) : std::nullopt;
  if (!reference) return SendPayload(socket, payload);
  int failure = SendFrame(socket, {}, zmq::send_flags::sndmore);  // an empty frame: a reference follows
  if (failure == 0) failure = SendFrame(socket, std::as_bytes(std::span(&*reference, 1)), zmq::send_flags::none);
  if (failure != 0) shared_->Withdraw(to);
  counters_->payloads_shared += failure == 0 ? 1 : 0;
  return failure;
}

void ZmqTransport::TendConnections() {
  const Clock::time_point now = Clock::now();
  if (shared_) shared_->Tend(now);
  if (now < next_tend_) return;
  next_tend_ = now + kTendEvery;
  const auto unheard_max = kHeartbeatsUnheard * options_.heartbeat;
  for (auto& [peer, dealer] : dealers_) {
    const bool unheard = dealer.unanswered_since && now - *dealer.unanswered_since >= unheard_max;
    if (!TryOtherKey(&dealer, now) && !dealer.socket.IsGivenUp() && !unheard) continue;
    dealer.socket.ConnectAgain(dealer.endpoint);
    if (shared_) shared_->Renew({peer});
    dealer.unanswered_since.reset();
    MakeDue(peer, &dealer);
  }
}

bool ZmqTransport::TryOtherKey(Dealer* dealer, Clock::time_point now) {
  if (dealer->keys.size() < 2 || now - dealer->key_tried_since < kKeyTriedFor) return false;
  if (!dealer->socket.WasClosedSince(dealer->key_tried_since)) return false;
  std::rotate(dealer->keys.begin(), dealer->keys.begin() + 1, dealer->keys.end());
  SetKey(dealer->socket.get(), ZMQ_CURVE_SERVERKEY, dealer->keys.front().bytes);  // for the next connection
  dealer->key_tried_since = now;
  return true;
}

int ZmqTransport::Poll(std::chrono::nanoseconds timeout, const OnMessage& on_message) {
  AwaitReady({});  // takes what has happened to connections since the last call
  TendConnections();
  int delivered = Drain(on_message);
  if (delivered > 0 || TakeWake() || timeout <= std::chrono::nanoseconds(0)) return delivered;
  const Clock::time_point start = Clock::now();
  const Clock::time_point deadline = start + std::min(timeout, kPollMax);
  const Clock::time_point sleep_at = std::min(deadline, start + options_.spin);
  for (Clock::time_point now = start; now < deadline; now = Clock::now()) {
    if (now < sleep_at) std::this_thread::yield();  // libzmq's threads may need this core to deliver the message
    AwaitReady(now < sleep_at ? std::chrono::nanoseconds(0) : deadline - now);
    TendConnections();
    delivered = Drain(on_message);
    if (delivered > 0 || TakeWake()) return delivered;
  }
  return 0;
}

int ZmqTransport::Drain(const OnMessage& on_message) {
  CAPSTAN_CHECK(!draining_);  // fails if on_message calls Poll
  draining_ = true;
  int delivered = 0;
  if (router_) delivered += DrainSocket(router_.get(), {}, on_message);
  // on_message may send, connect and disconnect. Dealers that become due meanwhile wait for the next Drain.
  for (const std::uint64_t peer : std::exchange(due_, {})) {
    auto dealer = dealers_.find(peer);
    if (dealer == dealers_.end()) continue;
    dealer->second.due = false;
    const int received = DrainSocket(dealer->second.socket.get(), {peer}, on_message);
    delivered += received;
    ReportFailure(peer, on_message);
    dealer = dealers_.find(peer);
    if (received == 0 || dealer == dealers_.end()) continue;
    dealer->second.unanswered_since.reset();
    MakeDue(peer, &dealer->second);  // there may be more
  }
  draining_ = false;
  closing_.clear();
  return delivered;
}

int ZmqTransport::DrainSocket(zmq::socket_ref socket, PeerId dealer, const OnMessage& on_message) {
  int delivered = 0;
  for (int i = 0; i < kMessagesPerSocketMax; ++i) {
    if (!ReceiveMessage(socket, dealer, on_message, &delivered)) break;
    if (dealer.value != 0 && !dealers_.contains(dealer.value)) break;  // disconnected by on_message
  }
  return delivered;
}

bool ZmqTransport::ReceiveMessage(zmq::socket_ref socket, PeerId dealer, const OnMessage& on_message, int* delivered) {
  const bool from_router = dealer.value == 0;
  std::optional<MessageFrames> frames = ReceiveFrames(socket, from_router, shared_ != nullptr);
  if (!frames) return false;
  const PeerId from = from_router ? PeerOf(ContentsOf(frames->sender)) : dealer;
  counters_->extra_frames += frames->extra;
  if (from.value == 0) {
    ++counters_->foreign_peers;
    return true;
  }
  if (frames->extra > 0) {
    Reject(from, Corrupt("a message has a header, and a payload or an empty frame and a reference"));
    return true;
  }
  const std::span<const std::byte> reference = ContentsOf(frames->reference);
  Result<Header> decoded =
      OpenAndDecode(ContentsOf(frames->header), frames->refers ? ReferredSize(reference) : frames->payload.size());
  if (!decoded.ok()) {
    Reject(from, decoded.status());
    return true;
  }
  const std::optional<Principal> sender = SenderOf(dealer, &frames->header);
  if (!sender) {
    ++counters_->revoked_peers;
    return true;
  }
  if (shared_) shared_->ReleaseCopied(from);
  Result<Received> contents = frames->refers ? TakeReferred(from, dealer, *sender, *decoded, reference)
                                             : Result<Received>({TakePayload(&frames->payload), nullptr});
  if (contents.status().code() == Code::kStale) ++counters_->payloads_lost;
  if (!contents.ok() && contents.status().code() != Code::kStale) Reject(from, contents.status());
  if (!contents.ok()) return true;
  Message message{std::move(*decoded), std::move(contents->payload)};
  ++counters_->messages_in;
  counters_->header_bytes_in += frames->header.size();
  counters_->payload_messages_in += frames->has_payload ? 1 : 0;
  counters_->payload_bytes_in += message.payload.size;
  ++*delivered;
  on_message(from, *sender, std::move(message));
  if (contents->lent) shared_->Return(from, reference);
  return true;
}

Result<ZmqTransport::Received> ZmqTransport::TakeReferred(PeerId from, PeerId dealer, const Principal& sender,
                                                          const Header& header, std::span<const std::byte> reference) {
  const bool limited = dealer.value == 0 && options_.listen_frame_bytes_max != 0;
  const std::size_t bytes_max = limited ? options_.listen_frame_bytes_max : options_.frame_bytes_max;
  const std::size_t size = ReferredSize(reference);
  if (options_.lend && options_.lend(from, sender, header, size)) {
    CAPSTAN_ASSIGN_OR_RETURN(LentBytes lent, shared_->Borrow(from, reference, bytes_max));
    return Received{{{}, lent.bytes.data(), lent.bytes.size()}, std::move(lent.region)};
  }
  std::byte* const place = options_.place ? options_.place(from, sender, header, size) : nullptr;
  CAPSTAN_ASSIGN_OR_RETURN(Slice copy, shared_->Copy(from, reference, bytes_max, place));
  return Received{std::move(copy), nullptr};
}

std::optional<Principal> ZmqTransport::SenderOf(PeerId dealer, zmq::message_t* header) {
  if (dealer.value != 0) return dealers_.find(dealer.value)->second.peer;
  if (options_.keys == nullptr) return callers_;
  const char* const key = zmq_msg_gets(header->handle(), "User-Id");  // as the gatekeeper has named the sender
  return key == nullptr ? std::nullopt : owners_.Find(key);
}

void ZmqTransport::ReportFailure(std::uint64_t peer, const OnMessage& on_message) {
  const auto dealer = dealers_.find(peer);
  if (dealer == dealers_.end()) return;
  const bool lost = dealer->second.socket.TakeBreak();
  if (lost && shared_) shared_->Renew({peer});
  const bool broke = lost && options_.reports_breaks;
  std::optional<HandshakeFailure> failure = dealer->second.socket.TakeFailure();
  if (failure == HandshakeFailure::kClosed && dealer->second.keys.empty()) failure.reset();
  if (!broke && !failure) return;
  Error error;
  error.code = broke ? Code::kUnreachable : Code::kRefused;
  error.message = broke ? "the connection to " + dealer->second.endpoint + " broke"
                        : ExplainFailure(*failure, dealer->second.endpoint, dealer->second.keys);
  const Principal sender = dealer->second.peer;  // a copy: on_message may disconnect the dealer
  on_message({peer}, sender, {std::move(error), {}});
}

void ZmqTransport::Reject(PeerId from, const Status& why) {
  ++counters_->decode_errors;
  if (!CallsUs(from)) return;  // answering answers could go on for ever
  if (!replies_.Take(Clock::now())) return;
  Error error;
  error.code = why.code();
  error.message = why.message();
  (void)Send(from, {std::move(error), {}});  // a peer that does not read gets no answer
}

void ZmqTransport::Watch(int descriptor, std::uint64_t what) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = what;
  if (ready_fd_ >= 0 && descriptor >= 0) CAPSTAN_CHECK(epoll_ctl(ready_fd_, EPOLL_CTL_ADD, descriptor, &event) == 0);
}

void ZmqTransport::Watch(WatchedSocket* socket, std::uint64_t what) {
  Watch(DescriptorOf(socket->get()), what);
  if (socket->events()) Watch(DescriptorOf(socket->events()), what | kEventsReady);
}

// Stops watching the socket's descriptors. libzmq closes them later, at a time of its own.
void ZmqTransport::Unwatch(WatchedSocket* socket) {
  epoll_ctl(ready_fd_, EPOLL_CTL_DEL, DescriptorOf(socket->get()), nullptr);
  if (socket->events()) epoll_ctl(ready_fd_, EPOLL_CTL_DEL, DescriptorOf(socket->events()), nullptr);
}

void ZmqTransport::MakeDue(std::uint64_t peer, Dealer* dealer) {
  if (!std::exchange(dealer->due, true)) due_.push_back(peer);
}

void ZmqTransport::AwaitReady(std::chrono::nanoseconds timeout) {
  std::array<epoll_event, kReadyAtOnce> ready;
  const auto timeout_ms = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
  const int count = epoll_wait(ready_fd_, ready.data(), kReadyAtOnce, due_.empty() ? static_cast<int>(timeout_ms) : 0);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t what = ready[i].data.u64;
    if (what == kWakeReady) {  // Wake wrote after TakeWake had seen its flag: TakeWake reads it now
      wake_pending_.store(true, std::memory_order_release);
    } else if (what == kMemoryReady) {
      shared_->Handle();
    } else if (what == (kRouterReady | kEventsReady)) {
      router_.TakeEvents();
    } else if (const auto dealer = dealers_.find(what & ~kEventsReady); dealer != dealers_.end()) {
      if ((what & kEventsReady) != 0) dealer->second.socket.TakeEvents();
      MakeDue(what & ~kEventsReady, &dealer->second);
    }
  }
}

void ZmqTransport::Wake() {
  if (wake_pending_.exchange(true, std::memory_order_acq_rel)) return;
  const std::uint64_t one = 1;
  const ssize_t written = write(wake_fd_, &one, sizeof one);
  (void)written;  // fails only when the counter is full, and then the owner is awake
}

bool ZmqTransport::TakeWake() {
  if (!wake_pending_.load(std::memory_order_acquire)) return false;
  std::uint64_t count = 0;
  const ssize_t got = read(wake_fd_, &count, sizeof count);
  (void)got;  // reads nothing if Wake has set the flag but not written yet
  wake_pending_.exchange(false, std::memory_order_acq_rel);
  return true;
}

}  // namespace

std::unique_ptr<Transport> CreateZmqTransport(const TransportOptions& options, TransportCounters* counters) {
  return std::make_unique<ZmqTransport>(options, counters);
}

}  // namespace capstan
