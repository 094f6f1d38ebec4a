#include "common/wire/zmq_transport.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "common/base/process_address.h"
#include "common/base/waker.h"
#include "common/keys/admission.h"
#include "common/keys/key_pair.h"
#include "common/wire/coalesced_frame.h"
#include "common/wire/gatekeeper.h"
#include "common/wire/header_seal.h"
#include "common/wire/held_messages.h"
#include "common/wire/key_owners.h"
#include "common/wire/local_endpoint.h"
#include "common/wire/messages/error.h"
#include "common/wire/reply_limit.h"
#include "common/wire/routing_id.h"
#include "common/wire/shared_payloads.h"
#include "common/wire/socket_options.h"
#include "common/wire/watched_socket.h"
#include "common/wire/wire_codec.h"
#include "common/wire/zmq_call.h"
#include "common/wire/zmq_endpoint.h"
#include "common/wire/zmq_frames.h"

namespace capstan {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMessagesPerSocketMax = 32;  // in one pass over all sockets; the last frame may have more
// How long a peer may close handshakes before the other of its two keys is tried: one that is ending closes some, too.
constexpr auto kKeyTriedFor = std::chrono::milliseconds(200);
// The connecting side connects again if it has sent a message and received none for this many heartbeat intervals: more
// than one bit of the handshake, which carries its routing id, may have been damaged.
constexpr int kHeartbeatsUnheard = 40;
constexpr std::chrono::nanoseconds kPollMax = std::chrono::hours(1);
constexpr auto kTendEvery = std::chrono::milliseconds(50);
constexpr int kReadyAtOnce = 256;
// A frame that is held for longer leaves when the message that is handled at that time is done, and all frames that are
// held leave before a message with a long payload is handled.
constexpr auto kHeldFor = std::chrono::microseconds(20);
constexpr std::size_t kLongPayload = std::size_t{64} << 10;
// The most sockets of a transport: three for each peer that it connects to (the peer's socket and both ends of the
// socket's monitor), for 4,096 peers and some to spare.
constexpr int kSocketsMax = 3 * (4096 + 64);
// A descriptor that epoll watches is named by the PeerId of its dealer socket, which is below 2^40, or by one of these
// numbers.
constexpr std::uint64_t kRouterReady = std::uint64_t{1} << 40, kWakeReady = std::uint64_t{1} << 41;
constexpr std::uint64_t kEventsReady = std::uint64_t{1} << 42;  // added for the descriptor of a socket's monitor
constexpr std::uint64_t kMemoryReady = std::uint64_t{1} << 43;

Result<Header> OpenAndDecode(std::span<const std::byte> sealed, std::size_t payload_bytes) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::span<const std::byte> header, OpenHeader(sealed, payload_bytes));
  return DecodeHeader(header);
}

// Returns the number that the process at the other end has for this dealer.
PeerId CallerOf(zmq::socket_ref dealer) {
  std::array<std::byte, 8> id{};
  std::size_t size = id.size();
  CAPSTAN_CHECK(zmq_getsockopt(dealer.handle(), ZMQ_ROUTING_ID, id.data(), &size) == 0);
  return PeerOf(std::span(id.data(), size));
}

std::span<const std::byte> TailOf(const std::optional<PayloadReference>& reference) {
  return reference ? std::as_bytes(std::span(&*reference, 1)) : std::span<const std::byte>();
}

// ---- the transport -------------------------------------------------------------------------------------------------

class ZmqTransport final : public Transport {
 public:
  ZmqTransport(const TransportOptions& options, TransportCounters* counters)
      : options_(options),
        counters_(counters != nullptr ? counters : &own_counters_),
        ready_fd_(epoll_create1(EPOLL_CLOEXEC)),
        owners_(options.admission) {
    CallZmq([&] { return context_.emplace(options_.io_threads, kSocketsMax), true; });
    Watch(waker_.descriptor(), kWakeReady);
    if (options_.memory == nullptr) return;
    shared_ = std::make_unique<SharedPayloads>(options_.memory, options_.on_note);
    Watch(shared_->descriptor(), kMemoryReady);
  }
  ~ZmqTransport() override {
    held_.Retry();
    if (shared_) shared_->StopListening();  // before another process may listen here
    dealers_.clear();
    closing_.clear();
    router_ = {};
    shared_.reset();
    gatekeeper_.reset();
    context_.reset();
    if (ready_fd_ >= 0) close(ready_fd_);
  }
  ZmqTransport(const ZmqTransport&) = delete;
  ZmqTransport& operator=(const ZmqTransport&) = delete;

  Result<std::string> Bind(const std::string& endpoint) override;
  Result<PeerId> Connect(const std::string& endpoint, Role role) override;
  void Disconnect(PeerId peer) override;
  Status Send(PeerId to, const Message& message) override;
  int Poll(std::chrono::nanoseconds timeout, const OnMessage& on_message) override;
  void Wake() override { waker_.Wake(); }

 private:
  struct Dealer {
    WatchedSocket socket;
    std::string endpoint;
    std::vector<PublicKey> keys;  // of which the peer has to prove one; the first is tried now
    Principal peer;
    Clock::time_point key_tried_since = Clock::now();
    std::optional<Clock::time_point> unanswered_since = {};
    bool due = false;           // whether it is in due_
    bool has_received = false;  // a message, over the present connection
  };

  // `server_key`: the key that the peers of a dealer have to prove.
  Result<WatchedSocket> Open(zmq::socket_type type, const std::optional<PublicKey>& server_key = {});
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
  struct Drained {
    int messages = 0;   // delivered
    bool more = false;  // whether frames may be left
  };
  // Reads the router's socket and those of all dealers that are due.
  Drained Drain(const OnMessage& on_message);
  // Reads frames of a socket. Returns how many.
  int DrainSocket(zmq::socket_ref socket, PeerId dealer, const OnMessage& on_message, int* delivered);
  // Receives the next message of `socket`, and gives it to `on_message` if it is valid. Returns false if there is none.
  bool ReceiveMessage(zmq::socket_ref socket, PeerId dealer, const OnMessage& on_message, int* delivered);
  // Returns the sender of a message from router_ (the null PeerId) or from a dealer that exists; nothing if it may no
  // longer take part.
  std::optional<Principal> SenderOf(PeerId dealer, zmq::message_t* header);
  // Returns the socket through which messages to a peer leave, and makes its dealer due; null: there is none any more.
  zmq::socket_ref SocketTo(PeerId to);
  struct Received {
    Slice payload;
    std::shared_ptr<const MappedRegion> lent;  // where it lies, if it is another process's; else null
  };
  // Returns the payload that a message refers to, or a copy. `dealer`: as in ReceiveMessage.
  Result<Received> TakeReferred(PeerId from, PeerId dealer, const Principal& sender, const Header& header,
                                std::span<const std::byte> reference);
  // A frame that is being received.
  struct Arrival {
    PeerId from, dealer;                // dealer: as in ReceiveMessage
    zmq::message_t* first = nullptr;    // names the sender's key
    zmq::message_t* payload = nullptr;  // null: a payload is copied
    const OnMessage* on_message = nullptr;
    int* delivered = nullptr;
  };
  // Gives a message to on_message if it is valid. Returns false if its header is not.
  bool HandleMessage(const Arrival& arrival, const CoalescedMessage& message);
  void HandleCoalesced(const Arrival& arrival);
  // Tells `on_message` that a dealer cannot be connected or that its connection broke, if that is new.
  void ReportFailure(std::uint64_t peer, const OnMessage& on_message);
  void Reject(PeerId from, const Status& why);
  void TendConnections();

  const TransportOptions options_;
  TransportCounters own_counters_;
  TransportCounters* const counters_;

  Waker waker_;
  // Used only by the owner's thread.
  const int ready_fd_;                       // the epoll of all descriptors
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
  std::vector<std::byte> header_;  // reused by Send
  HeldMessages held_{[this](PeerId to, std::span<const std::byte> frame) {
                       const zmq::socket_ref socket = SocketTo(to);
                       return socket ? SendFrames(socket, to, frame, {}, {}) : EHOSTUNREACH;
                     },
                     &counters_->sends_unreachable};  // they leave with the next Poll at the latest
  std::unique_ptr<SharedPayloads> shared_;            // null: every payload goes through a socket
  bool draining_ = false;
  ReplyLimit replies_;
};

Result<WatchedSocket> ZmqTransport::Open(zmq::socket_type type, const std::optional<PublicKey>& server_key) {
  if (waker_.descriptor() < 0 || ready_fd_ < 0 || !context_)
    return Unreachable("no socket can be made: too many open files; raise ulimit -n");
  zmq::socket_t socket;
  const int failure = CallZmq([&] { return socket = zmq::socket_t(*context_, type), true; });
  if (failure != 0) return Unreachable("no socket can be made: " + ReasonOf(failure, true));
  CAPSTAN_CHECK(CallZmq([&] { return SetOptions(options_, type, socket), true; }) == 0);
  const bool encrypts = options_.keys != nullptr && (type == zmq::socket_type::router || server_key);
  if (encrypts) CAPSTAN_CHECK(CallZmq([&] { return SetKeys(*options_.keys, server_key, socket), true; }) == 0);
  return WatchedSocket(&*context_, std::move(socket), "connections-" + std::to_string(++sockets_made_), counters_);
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
  held_.End(peer);
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

zmq::socket_ref ZmqTransport::SocketTo(PeerId to) {
  if (CallsUs(to)) return router_.get();
  const auto dealer = dealers_.find(to.value);
  if (dealer == dealers_.end()) return {};
  MakeDue(to.value, &dealer->second);
  return dealer->second.socket.get();
}

Status ZmqTransport::Send(PeerId to, const Message& message) {
  const zmq::socket_ref socket = SocketTo(to);
  if (!socket) return SendFailure(to, EHOSTUNREACH);
  // A peer that has sent nothing may be of another version, which cannot read a coalesced frame, nor an Error in one.
  bool is_known = CallsUs(to);
  if (!is_known) {
    Dealer& dealer = dealers_.find(to.value)->second;
    if (!dealer.unanswered_since) dealer.unanswered_since = Clock::now();
    is_known = dealer.has_received;
  }
  CAPSTAN_RETURN_IF_ERROR(EncodeHeader(message.header, &header_));
  SealHeader(message.payload.size, &header_);
  if (std::max(header_.size(), message.payload.size) > options_.frame_bytes_max) {
    return Invalid("a message of " + std::to_string(header_.size()) + " + " + std::to_string(message.payload.size) +
                   " bytes; each part may have " + std::to_string(options_.frame_bytes_max));
  }
  const bool has_payload = !message.payload.empty();
  const std::optional<PayloadReference> reference =
      has_payload && shared_ ? shared_->Refer(to, message.payload) : std::nullopt;
  int failure = 0;
  const bool may_wait = options_.coalesces && options_.frame_bytes_max >= CoalescedFrame::kBytesMax && is_known &&
                        !message.header.Is<Error>();
  const std::span<const std::byte> tail = reference ? TailOf(reference) : message.payload.bytes();
  if (!may_wait || !held_.Hold(to, {header_, tail, reference.has_value()}, Clock::now())) {
    failure = held_.Send(to);
    if (failure == 0) failure = SendFrames(socket, to, header_, message.payload, TailOf(reference));
    if (failure != 0 && reference) shared_->Withdraw(to);
  }
  if (failure != 0) return SendFailure(to, failure);
  counters_->payloads_shared += reference ? 1 : 0;
  ++counters_->messages_out;
  counters_->header_bytes_out += header_.size();
  counters_->payload_messages_out += has_payload ? 1 : 0;
  counters_->payload_bytes_out += message.payload.size;
  return {};
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
    dealer.has_received = false;
    if (shared_) shared_->Renew({peer});
    dealer.unanswered_since.reset();
    MakeDue(peer, &dealer);
  }
}

bool ZmqTransport::TryOtherKey(Dealer* dealer, Clock::time_point now) {
  if (dealer->keys.size() < 2 || now - dealer->key_tried_since < kKeyTriedFor) return false;
  if (!dealer->socket.WasClosedSince(dealer->key_tried_since)) return false;
  std::rotate(dealer->keys.begin(), dealer->keys.begin() + 1, dealer->keys.end());
  SetServerKey(dealer->keys.front(), dealer->socket.get());
  dealer->key_tried_since = now;
  return true;
}

int ZmqTransport::Poll(std::chrono::nanoseconds timeout, const OnMessage& on_message) {
  held_.Retry();
  AwaitReady({});  // takes what has happened to connections since the last call
  TendConnections();
  Drained drained = Drain(on_message);
  if (drained.messages > 0 || waker_.Take() || timeout <= std::chrono::nanoseconds(0)) return drained.messages;
  const Clock::time_point start = Clock::now();
  const Clock::time_point deadline = start + std::min(timeout, kPollMax);
  const Clock::time_point sleep_at = std::min(deadline, start + options_.spin);
  for (Clock::time_point now = start; now < deadline; now = Clock::now()) {
    // on_message may have sent something when it got an Error about a connection. A call of libzmq may have cleared the
    // readiness of a descriptor, so Drain looks again before this thread sleeps.
    const bool sent = held_.SendAll();
    if (now < sleep_at) std::this_thread::yield();  // libzmq's threads may need this core to deliver the message
    AwaitReady(sent || drained.more || now < sleep_at ? std::chrono::nanoseconds(0) : deadline - now);
    TendConnections();
    drained = Drain(on_message);
    if (drained.messages > 0 || waker_.Take()) return drained.messages;
  }
  return 0;
}

ZmqTransport::Drained ZmqTransport::Drain(const OnMessage& on_message) {
  CAPSTAN_CHECK(!draining_);  // fails if on_message calls Poll
  draining_ = true;
  Drained drained;
  if (router_) {
    drained.more = DrainSocket(router_.get(), {}, on_message, &drained.messages) == kMessagesPerSocketMax;
  }
  // on_message may send, connect and disconnect. Dealers that become due meanwhile wait for the next Drain.
  for (const std::uint64_t peer : std::exchange(due_, {})) {
    auto dealer = dealers_.find(peer);
    if (dealer == dealers_.end()) continue;
    dealer->second.due = false;
    const int before = drained.messages;
    const int frames = DrainSocket(dealer->second.socket.get(), {peer}, on_message, &drained.messages);
    dealer = dealers_.find(peer);
    if (drained.messages > before && dealer != dealers_.end()) {
      dealer->second.has_received = true;
      dealer->second.unanswered_since.reset();
    }
    ReportFailure(peer, on_message);
    dealer = dealers_.find(peer);
    if (frames > 0 && dealer != dealers_.end()) MakeDue(peer, &dealer->second);  // there may be more
  }
  draining_ = false;
  closing_.clear();
  return drained;
}

int ZmqTransport::DrainSocket(zmq::socket_ref socket, PeerId dealer, const OnMessage& on_message, int* delivered) {
  const int enough = *delivered + kMessagesPerSocketMax;
  int frames = 0;
  while (frames < kMessagesPerSocketMax && ReceiveMessage(socket, dealer, on_message, delivered)) {
    ++frames;
    if (dealer.value != 0 && !dealers_.contains(dealer.value)) break;  // disconnected by on_message
    if (*delivered >= enough) return kMessagesPerSocketMax;
  }
  return frames;
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
  const Arrival arrival{from, dealer, &frames->header, &frames->payload, &on_message, delivered};
  const std::span<const std::byte> header = ContentsOf(frames->header);
  if (!frames->has_payload && CoalescedFrameReader::IsCoalesced(header)) {
    HandleCoalesced(arrival);
  } else {
    const std::span<const std::byte> tail = ContentsOf(frames->refers ? frames->reference : frames->payload);
    (void)HandleMessage(arrival, {header, tail, frames->refers});
  }
  return true;
}

void ZmqTransport::HandleCoalesced(const Arrival& arrival) {
  if (const std::size_t size = arrival.first->size(); size > CoalescedFrame::kBytesMax) {
    return Reject(arrival.from, Corrupt("a frame of several messages has " + std::to_string(size) + " bytes; at most " +
                                        std::to_string(CoalescedFrame::kBytesMax) + " are allowed"));
  }
  Arrival part = arrival;
  part.payload = nullptr;
  CoalescedFrameReader reader(ContentsOf(*arrival.first));
  for (bool empty = true;; empty = false) {
    const Result<std::optional<CoalescedMessage>> next = reader.Next();
    if (!next.ok()) return Reject(arrival.from, next.status());
    if (!next->has_value() && empty) return Reject(arrival.from, Corrupt("a frame of several messages has none"));
    if (!next->has_value() || !HandleMessage(part, **next)) return;
    if (arrival.dealer.value != 0 && !dealers_.contains(arrival.dealer.value)) return;  // disconnected by on_message
  }
}

bool ZmqTransport::HandleMessage(const Arrival& arrival, const CoalescedMessage& message) {
  Result<Header> decoded =
      OpenAndDecode(message.header, message.refers ? ReferredSize(message.tail) : message.tail.size());
  if (decoded.ok() && message.refers && !shared_) decoded = Corrupt("a reference to memory that is not shared");
  if (!decoded.ok()) {
    Reject(arrival.from, decoded.status());
    return false;
  }
  const std::optional<Principal> sender = SenderOf(arrival.dealer, arrival.first);
  if (!sender) {
    ++counters_->revoked_peers;
    return true;
  }
  if (shared_) shared_->ReleaseCopied(arrival.from);
  if ((message.refers ? ReferredSize(message.tail) : message.tail.size()) >= kLongPayload) held_.SendAll();
  Result<Received> contents = Received{};
  if (message.refers) {
    contents = TakeReferred(arrival.from, arrival.dealer, *sender, *decoded, message.tail);
  } else {
    contents->payload = arrival.payload == nullptr ? CopyPayload(message.tail) : TakePayload(arrival.payload);
  }
  if (contents.status().code() == Code::kStale) ++counters_->payloads_lost;
  if (!contents.ok() && contents.status().code() != Code::kStale) Reject(arrival.from, contents.status());
  if (!contents.ok()) return true;
  Message taken{std::move(*decoded), std::move(contents->payload)};
  ++counters_->messages_in;
  counters_->header_bytes_in += message.header.size();
  counters_->payload_messages_in += message.tail.empty() ? 0 : 1;
  counters_->payload_bytes_in += taken.payload.size;
  ++*arrival.delivered;
  (*arrival.on_message)(arrival.from, *sender, std::move(taken));
  if (contents->lent) shared_->Return(arrival.from, message.tail);
  if (!held_.empty()) held_.SendSince(Clock::now() - kHeldFor);
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
  if (lost) dealer->second.has_received = false;
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
  const bool is_first = why.code() == Code::kUnsupported && ++counters_->other_versions == 1;
  if (is_first && options_.on_note) options_.on_note("message from " + Describe(from) + " dropped: " + why.message());
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
    if (what == kWakeReady) {
      waker_.SetPending();
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

}  // namespace

std::unique_ptr<Transport> CreateZmqTransport(const TransportOptions& options, TransportCounters* counters) {
  return std::make_unique<ZmqTransport>(options, counters);
}

}  // namespace capstan
