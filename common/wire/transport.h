// Transport: carries messages between actors. Each actor has one.
//
// Kind:   owned by its actor's thread.
// Limits: frames above the limit given at creation are refused; each peer's queue is bounded.
// Fails:  kBusy (the peer's queue is full), kUnreachable (the peer is gone), kInvalid (a bad endpoint, a port in use).
// Why:    the cores use no sockets, so another transport (shared memory, a simulation) needs no change in them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/keys/principal.h"
#include "common/wire/message.h"
#include "common/wire/messages/limits.h"

namespace capstan {

class Admission;
class SharedMemory;
struct KeyPair;

class Transport {
 public:
  // Takes a message of `sender` from the connection `from`. It is not called for messages that cannot be decoded; the
  // transport counts those.
  using OnMessage = std::function<void(PeerId from, const Principal& sender, Message message)>;

  virtual ~Transport() = default;

  // Accepts peers at "tcp://host:port" (port 0 or * picks one) or "ipc:///path"; returns the endpoint bound, with
  // "#KEY" behind it if connections are encrypted.
  virtual Result<std::string> Bind(const std::string& endpoint) = 0;
  // Connects to a peer. Succeeds also if the peer is absent: the connection is made in the background, and made again
  // after a loss. If the endpoint ends with "#KEY", the peer has to prove that it has this key, and counts as one of
  // `role`. A peer that refuses this process's key, or proves another one, is reported as an Error (kRefused) from that
  // peer.
  virtual Result<PeerId> Connect(const std::string& endpoint, Role role = Role::kAnyone) = 0;
  virtual void Disconnect(PeerId peer) = 0;

  // Puts the message into the peer's queue. A large payload is not copied: it must not change until it has been sent.
  virtual Status Send(PeerId to, const Message& message) = 0;
  // Gives messages that have arrived to `on_message`. If there are none, waits for one, at most for `timeout`. Returns
  // the number of messages given.
  virtual int Poll(std::chrono::nanoseconds timeout, const OnMessage& on_message) = 0;

  // Makes the running Poll, or the next one, return at once. Only this call is allowed from other threads.
  virtual void Wake() = 0;
};

struct TransportOptions {
  std::size_t frame_bytes_max = kFrameBytesMax;  // larger frames are refused by the socket
  std::size_t listen_frame_bytes_max = 0;        // the same of processes that connect to this one; 0: frame_bytes_max
  int queue_messages_max = 1024;                 // limit for each peer and direction; of small messages: frames
  int io_threads = 1;
  std::chrono::milliseconds heartbeat{2000};
  std::chrono::microseconds spin{60};  // how long Poll polls before it sleeps: about as long as an answer takes
  bool reports_breaks = false;  // whether a broken connection to a peer is given as an Error (kUnreachable) from it
  // Whether small messages (at most CoalescedFrame::kMessageBytesMax) wait for the next Poll and share a frame. Send
  // then returns OK although the peer is gone: the message is dropped later, and counted.
  bool coalesces = false;
  // Payloads in this memory are not sent to processes at ipc:// endpoints: those read them where they lie. Null: all
  // payloads go through sockets.
  std::shared_ptr<const SharedMemory> memory = nullptr;
  // Called, on the owner's thread, with the reason why payloads of this memory go through a socket after all, and when
  // the first message of another protocol version has come.
  std::function<void(const std::string&)> on_note = nullptr;
  // Called, on the owner's thread, before a message whose payload of `bytes` lies in another process's memory is given
  // to OnMessage. Returns where the transport shall copy the payload: the message's payload then lies there, without an
  // owner, and only until OnMessage returns. Null: the transport copies it into memory of its own. The copy may be
  // damaged in either place. The function must not call the transport.
  std::function<std::byte*(PeerId from, const Principal& sender, const Header& header, std::size_t bytes)> place =
      nullptr;
  // Called as `place` is, and before it. True: the message gets the payload where it lies, without an owner. Until
  // OnMessage returns it may be read, and may change: read each byte once, and check the bytes that were read.
  std::function<bool(PeerId from, const Principal& sender, const Header& header, std::size_t bytes)> lend = nullptr;
  // With keys, connections over TCP are encrypted, and both ends prove their keys (CurveZMQ). `admission` says who may
  // connect to this process; Bind needs it.
  std::shared_ptr<const KeyPair> keys = nullptr;
  std::shared_ptr<Admission> admission = nullptr;
};

}  // namespace capstan
