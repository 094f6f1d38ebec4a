// CreateZmqTransport: messages over ZeroMQ, between machines (tcp) and on one (ipc).
//
// Kind:   owned by one thread (any thread may call Wake); libzmq's own threads do the input and output.
// Limits: those of TransportOptions. A peer that connects to us costs no state here: its PeerId is its routing id.
//         libzmq has a queue per connection. A received message has at most eight frames (ours have one to three) and
//         twice frame_bytes_max bytes, and a connection with as many bytes of unread messages is not read. When few
//         file descriptors are left, a new connection ends the one that has been silent for the longest time.
// Fails:  as Transport. Messages that cannot be decoded are counted. If a peer that connected to us sent one, it gets
//         an Error, within a ReplyLimit for all peers together.
// Why:    payloads of some KiB and more are copied on neither side: a received frame is passed on, and a sent payload
//         is read where it lies. With TransportOptions::memory the receiver copies it, and the kernel does not.
//
// A message is one frame with its header and, if it has a payload, one more, or two: an empty one and a reference.
// Small messages may share a frame (coalesced_frame.h). A broken connection is made again in the background, and the
// peer keeps its PeerId on both sides. Messages in flight are lost; queued ones go to the process that answers after
// that. PeerIds of connecting peers are not identities: any process can claim one, and nothing relies on them. Only
// processes of this user can connect to a Unix socket (local_endpoint.h, and the kernel says whose a peer is); to a
// TCP socket any process can that reaches it.
#pragma once

#include <cstdint>
#include <memory>

#include "common/wire/transport.h"

namespace capstan {

// Written only by the transport's thread.
struct TransportCounters {
  std::uint64_t messages_in = 0, messages_out = 0;                  // delivered; handed to libzmq, or held for it
  std::uint64_t payload_messages_in = 0, payload_messages_out = 0;  // messages with a payload, of the above
  std::uint64_t header_bytes_in = 0, header_bytes_out = 0;
  std::uint64_t payload_bytes_in = 0, payload_bytes_out = 0;
  std::uint64_t connections_made = 0;   // whose handshake succeeded
  std::uint64_t connections_lost = 0;   // that ended, also before or during their handshake
  std::uint64_t sends_blocked = 0;      // messages refused because the peer's queue was full
  std::uint64_t sends_unreachable = 0;  // messages refused or dropped because the peer was gone
  std::uint64_t decode_errors = 0;      // dropped messages: damaged, of another protocol, or with too many frames
  std::uint64_t other_versions = 0;     // of decode_errors: messages of another protocol version
  std::uint64_t payloads_lost = 0;      // dropped: they lay in memory of a connection that has ended
  std::uint64_t payloads_shared = 0;    // of payload_messages_out: those that the peer reads where they lie
  std::uint64_t extra_frames = 0;       // frames that no message has, dropped
  std::uint64_t foreign_peers = 0;      // messages dropped for a routing id that no capstan peer would choose
  std::uint64_t revoked_peers = 0;      // messages dropped because their sender's key is no longer in the allow list
};

// `counters`, if given, must outlive the transport. Destruction waits at most a quarter of a second for queued messages
// to leave; then no sent payload is read any more. Received payloads stay valid.
std::unique_ptr<Transport> CreateZmqTransport(const TransportOptions& options, TransportCounters* counters = nullptr);

}  // namespace capstan
