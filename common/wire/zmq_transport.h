// CreateZmqTransport: messages over ZeroMQ, between machines (tcp) and on one (ipc).
//
// Kind:   owned by one thread (Wake from any); libzmq's own threads do the input and output.
// Limits: of TransportOptions. No state is kept per peer that calls us: its PeerId is its routing id. libzmq holds a
//         queue per connection; connections are limited by file descriptors only, and a peer that sends one message of
//         endless frames by the process's memory limit only.
// Fails:  as Transport. What cannot be decoded is counted and, when a peer that called us sent it, answered with Error
//         at most kErrorRepliesPerSecond times a second.
// Why:    a frame that arrives is handed on as it lies, a payload that leaves is read where it lies: no copy on
//         either side.
//
// A message is one frame of wire_codec.h and, if it has a payload, one more. A connection that breaks is made again in
// the background and the peer keeps its PeerId on both sides; what was in flight is lost, what was queued goes to
// whoever answers then. PeerIds of callers are not identities: anybody can claim one
// (PROTOCOL.md: nothing relies on it).
#pragma once

#include <cstdint>
#include <memory>

#include "common/wire/transport.h"

namespace capstan {

inline constexpr int kErrorRepliesPerSecond = 20;

// Written by the transport's thread.
struct TransportCounters {
  std::uint64_t messages_in = 0, messages_out = 0;                  // delivered; handed to libzmq
  std::uint64_t payload_messages_in = 0, payload_messages_out = 0;  // of these, with a payload
  std::uint64_t header_bytes_in = 0, header_bytes_out = 0;
  std::uint64_t payload_bytes_in = 0, payload_bytes_out = 0;
  std::uint64_t sends_blocked = 0;      // a full queue put a message back
  std::uint64_t sends_unreachable = 0;  // the peer was gone
  std::uint64_t decode_errors = 0;      // messages dropped: damaged, of another protocol, or of too many frames
  std::uint64_t extra_frames = 0;       // frames behind the second one, thrown away
  std::uint64_t foreign_peers = 0;      // messages dropped because of a routing id that none of ours would choose
};

// `counters`, if given, outlives the transport. Destruction gives what is queued a quarter of a second to leave and
// never waits longer; payloads that were received stay valid.
std::unique_ptr<Transport> CreateZmqTransport(const TransportOptions& options, TransportCounters* counters = nullptr);

}  // namespace capstan
