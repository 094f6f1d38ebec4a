#include "common/wire/socket_options.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "common/wire/routing_id.h"

namespace capstan {
namespace {

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

void SetKey(zmq::socket_ref socket, int option, const std::array<std::uint8_t, kKeyBytes>& key) {
  CAPSTAN_CHECK(zmq_setsockopt(socket.handle(), option, key.data(), key.size()) == 0);
}

}  // namespace

void SetOptions(const TransportOptions& options, zmq::socket_type type, zmq::socket_ref socket) {
  namespace option = zmq::sockopt;
  const int heartbeat = static_cast<int>(std::clamp<std::int64_t>(options.heartbeat.count(), 1, kHeartbeatMaxMs));
  const std::size_t seal = options.keys == nullptr ? 0 : kSealBytes;
  const bool limited = type == zmq::socket_type::router && options.listen_frame_bytes_max != 0;
  const std::size_t frame = limited ? options.listen_frame_bytes_max : options.frame_bytes_max;
  socket.set(option::maxmsgsize, static_cast<std::int64_t>(frame + seal));
  socket.set(option::linger, kLingerMs);
  socket.set(option::sndhwm, options.queue_messages_max);
  socket.set(option::rcvhwm, options.queue_messages_max);
  socket.set(option::handshake_ivl, kHandshakeMs);
  socket.set(option::heartbeat_ivl, heartbeat);
  socket.set(option::heartbeat_timeout, heartbeat * kHeartbeatsMissed);
  socket.set(option::heartbeat_ttl, heartbeat * kHeartbeatsMissed);
  socket.set(option::tcp_maxrt, kUntakenMs);
  socket.set(option::reconnect_ivl, kReconnectMs);
  socket.set(option::reconnect_ivl_max, kReconnectMaxMs);
  socket.set(option::connect_timeout, kConnectMs);
  if (type == zmq::socket_type::router) {
    // Of the processes that connect to a Unix socket, the kernel tells the user. cppzmq has no name for this option.
    const uid_t user = geteuid();
    CAPSTAN_CHECK(zmq_setsockopt(socket.handle(), ZMQ_IPC_FILTER_UID, &user, sizeof user) == 0);
    socket.set(option::router_mandatory, true);  // errors instead of silent loss
    socket.set(option::router_handover, true);   // a new connection is not locked out by its half-dead predecessor
  } else {
    const RoutingId id = RandomRoutingId();
    socket.set(option::routing_id, zmq::buffer(id.bytes.data(), id.size));
  }
}

void SetKeys(const KeyPair& keys, const std::optional<PublicKey>& server_key, zmq::socket_ref socket) {
  SetKey(socket, ZMQ_CURVE_SECRETKEY, keys.secret_key.bytes());
  if (server_key) {
    SetKey(socket, ZMQ_CURVE_PUBLICKEY, keys.public_key.bytes);
    SetServerKey(*server_key, socket);
    return;
  }
  socket.set(zmq::sockopt::curve_server, true);
  socket.set(zmq::sockopt::zap_domain, "capstan");
  // Without this, libzmq admits everybody if nobody answers its questions. cppzmq has no name for this option.
  constexpr int kEnforceDomain = 93, kOn = 1;
  CAPSTAN_CHECK(zmq_setsockopt(socket.handle(), kEnforceDomain, &kOn, sizeof kOn) == 0);
}

void SetServerKey(const PublicKey& key, zmq::socket_ref socket) { SetKey(socket, ZMQ_CURVE_SERVERKEY, key.bytes); }

}  // namespace capstan
