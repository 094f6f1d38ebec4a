// SharedPayloads: a transport's connections to the peers of this machine that read its payloads where they lie, and
// whose payloads it reads so.
//
// Kind:   owned by the transport's thread.
// Limits: Limits; a payload below kSharedFrom bytes goes through the socket.
// Fails:  a peer without a connection gets payloads through the socket. A connection that broke is made again.
// Why:    the transport asks one object whether a payload may stay where it lies; the cores know nothing of it.
//
// A process that listens at ipc:///PATH takes connections at PATH.m. A process that connects to PATH also connects
// there.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/base/buffer.h"
#include "common/base/shared_memory.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/wire/memory_peer.h"

namespace capstan {

// The size of the payload that such a frame refers to; 0 if it is none.
std::size_t ReferredSize(std::span<const std::byte> frame);

class SharedPayloads {
 public:
  static std::uint64_t BytesOfMachine();  // bytes of RAM

  struct Limits {
    std::size_t peers = 4096;  // connections that others have made; further ones are closed
    std::size_t silent = 256;  // those of them that have said nothing yet; each has 10 s for its Greeting
    // A transport maps at most so many regions and bytes of all its peers together. Payloads in further regions go
    // through the socket. A process may be mapped more than once: over connections of both directions, and while it is
    // replaced by another.
    std::size_t regions = 4096;
    std::uint64_t bytes = 4 * BytesOfMachine();
  };
  static constexpr std::size_t kSharedFrom = std::size_t{16} << 10;  // a smaller payload costs less as a copy

  using OnNote = std::function<void(const std::string&)>;

  // `own`: where the payloads that may be shared lie; once it is closed, no connection is made to another process.
  // `on_note`, which may be empty: called once with each reason why payloads go through the socket, at most 64
  // times.
  SharedPayloads(std::shared_ptr<const SharedMemory> own, OnNote on_note);
  SharedPayloads(std::shared_ptr<const SharedMemory> own, OnNote on_note, const Limits& limits);
  ~SharedPayloads();
  SharedPayloads(const SharedPayloads&) = delete;
  SharedPayloads& operator=(const SharedPayloads&) = delete;

  // A descriptor that is readable when Handle has something to do; -1: there are too many open files.
  int descriptor() const { return ready_fd_; }
  void Handle();
  // Makes missing connections, after a pause. Call it often.
  void Tend(std::chrono::steady_clock::time_point now);

  // Takes connections at the endpoint's path. Without success payloads go through the socket.
  void Listen(const std::string& endpoint);
  // Keeps a connection to the process that listens there. `caller`: this side's routing id, as the peer's number for
  // it.
  void Connect(PeerId peer, const std::string& endpoint, std::uint64_t caller);
  void Disconnect(PeerId peer);
  // Call it when the peer's ZeroMQ connection was lost, and with it messages: makes the connection again.
  void Renew(PeerId peer);
  // Takes no more connections. Call it before another process may listen at the endpoint.
  void StopListening();

  // The next three: as in MemoryPeer.
  std::optional<PayloadReference> Refer(PeerId to, const Slice& payload);
  void Withdraw(PeerId to);
  void ReleaseCopied(PeerId of);
  // Returns the payload that a frame refers to, where it lies. The peer may change it at any time. Call Return once it
  // has been read. `bytes_max`: the size above which it is refused.
  Result<LentBytes> Borrow(PeerId from, std::span<const std::byte> frame, std::size_t bytes_max);
  // Tells the peer that the payload was read, unless the connection has ended.
  void Return(PeerId from, std::span<const std::byte> frame);
  // Copies the payload that a frame refers to, and returns the copy. `place`: where to, as TransportOptions::place
  // gives it; null: into a buffer.
  Result<Slice> Copy(PeerId from, std::span<const std::byte> frame, std::size_t bytes_max, std::byte* place);

 private:
  struct Target {  // a process that a connection is kept to
    std::string path;
    std::uint64_t caller = 0;
    std::chrono::steady_clock::time_point next_try{};
    std::chrono::steady_clock::duration pause{};  // before the try after the next one
  };
  struct Connection {
    Connection(int socket, std::shared_ptr<const SharedMemory> own, std::uint64_t number, bool is_accepted);
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    bool is_silent() const { return accepted && peer.caller() == 0; }

    MemoryPeer peer;
    const int process;  // a descriptor that is readable once the peer's process has ended; -1: the kernel gave none
    const std::uint64_t serial;  // names it in ready_fd_; descriptors are used again
    const bool accepted;         // the other side has connected
    const std::chrono::steady_clock::time_point made = std::chrono::steady_clock::now();
    std::optional<std::chrono::steady_clock::time_point> ended = {};
    std::uint64_t oldest = 0;  // the oldest reference that it has not copied; 0: it has copied all
    std::chrono::steady_clock::time_point waits_since;  // when `oldest` became the oldest one
  };

  // Returns the connection of the peer; null if there is none.
  Connection* Find(PeerId peer);
  void Try(PeerId peer, Target* target);
  void Accept();
  bool Watch(int descriptor, std::uint64_t serial) const;
  void Unwatch(const Connection& connection) const;
  void WatchListener();
  // Adds a connection with this socket. Returns null, and closes the socket, if it cannot be watched.
  Connection* Add(int socket, bool accepted);
  void Drop(std::uint64_t serial);
  // Takes what has arrived. Returns false if the connection is to be dropped. `process_ended`: the peer's.
  bool Take(Connection* connection, bool process_ended, std::chrono::steady_clock::time_point now);
  // Gives an accepted connection its peer, once its Greeting is here. Returns false if it may not have it.
  bool Name(Connection* connection);
  bool HasRoom() const;

  // `error`: an error number, or 0 if `what` says it all.
  void Note(const std::string& path, const char* what, int error);

  const std::shared_ptr<const SharedMemory> own_;
  const OnNote on_note_;
  const Limits limits_;
  const int ready_fd_;
  int listener_ = -1;
  bool is_listener_watched_ = false;
  std::string listen_path_;
  std::map<std::uint64_t, Target> targets_;                           // by PeerId
  std::map<std::uint64_t, std::unique_ptr<Connection>> connections_;  // by serial
  std::map<std::uint64_t, Connection*> connection_of_;                // by PeerId
  std::uint64_t serials_ = 0;
  MappingRoom room_{limits_.regions, limits_.bytes};
  std::set<std::string> notes_;  // that on_note_ was called with
  std::chrono::steady_clock::time_point next_tend_{};
  std::map<std::size_t, BufferPool> copies_;  // by the size of a buffer
};

}  // namespace capstan
