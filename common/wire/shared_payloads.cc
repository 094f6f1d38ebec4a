#include "common/wire/shared_payloads.h"

#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/process_address.h"
#include "common/wire/routing_id.h"

namespace capstan {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kTryEvery = std::chrono::milliseconds(500), kTryAtLeastEvery = std::chrono::milliseconds(16'000);
constexpr auto kKeptFor = std::chrono::seconds(1);               // regions of a process that has ended
constexpr auto kStopsFor = std::chrono::seconds(60);             // a process that copies nothing is given up
constexpr auto kGreetsWithin = std::chrono::seconds(10);         // after it has connected
constexpr std::size_t kSizeUnit = std::size_t{64} << 10;         // of buffers for copies
constexpr std::size_t kKeptCopyMax = std::size_t{1} << 20;       // buffers up to the size of a block are used again
constexpr std::uint64_t kListener = 0;                           // in place of a connection's serial
constexpr std::uint64_t kProcessEnded = std::uint64_t{1} << 63;  // this bit and a serial: the peer's process has ended
constexpr auto kTendEvery = std::chrono::milliseconds(50);
constexpr std::size_t kNotesMax = 64;
constexpr int kReadyAtOnce = 64, kAcceptedAtOnce = 64, kBacklog = 128;

std::optional<sockaddr_un> SocketAddressOf(const std::string& path) {
  sockaddr_un address{};
  if (path.size() >= sizeof address.sun_path) return std::nullopt;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

std::string PathAt(const std::string& endpoint) { return SocketPathOf(endpoint) + ".m"; }

int NewSocket() { return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

std::optional<ucred> PeerAt(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer;
}

bool IsOfThisUser(int socket) {
  const std::optional<ucred> peer = PeerAt(socket);
  return peer && peer->uid == geteuid();
}

// Returns a descriptor that is readable once the process at the other end has ended. A process that it forked may keep
// the socket open after that. -1: it cannot be watched, with errno ESRCH if it has ended already.
int ProcessAt(int socket) {
  errno = 0;
  const std::optional<ucred> peer = PeerAt(socket);
  if (!peer || peer->pid <= 0) return -1;  // 0: it is in a container whose processes this one cannot see
  return static_cast<int>(syscall(SYS_pidfd_open, peer->pid, 0));
}

// Whether a connection may have this descriptor. The upper half is for sockets and files: without them nothing works.
bool LeavesDescriptors(int made) {
  rlimit files{};
  return getrlimit(RLIMIT_NOFILE, &files) != 0 || static_cast<rlim_t>(made) < files.rlim_cur / 2;
}

std::uint64_t RandomId() {
  std::uint64_t id = 0;
  CAPSTAN_CHECK(getrandom(&id, sizeof id, 0) == sizeof id);
  return id;
}

// Requires a frame of that size.
PayloadReference ReferenceIn(std::span<const std::byte> frame) {
  PayloadReference reference;
  std::memcpy(&reference, frame.data(), sizeof reference);
  return reference;
}

}  // namespace

std::size_t ReferredSize(std::span<const std::byte> frame) {
  return frame.size() == sizeof(PayloadReference) ? ReferenceIn(frame).size : 0;
}

std::uint64_t SharedPayloads::BytesOfMachine() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
}

SharedPayloads::Connection::Connection(int socket, std::shared_ptr<const SharedMemory> own, std::uint64_t number,
                                       bool is_accepted)
    : peer(socket, std::move(own)), process(ProcessAt(socket)), serial(number), accepted(is_accepted) {}

SharedPayloads::Connection::~Connection() {
  if (process >= 0) close(process);
}

SharedPayloads::SharedPayloads(std::shared_ptr<const SharedMemory> own, OnNote on_note)
    : SharedPayloads(std::move(own), std::move(on_note), Limits()) {}

SharedPayloads::SharedPayloads(std::shared_ptr<const SharedMemory> own, OnNote on_note, const Limits& limits)
    : own_(std::move(own)), on_note_(std::move(on_note)), limits_(limits), ready_fd_(epoll_create1(EPOLL_CLOEXEC)) {
  if (ready_fd_ < 0) Note("this process", "epoll", errno);
}

void SharedPayloads::Note(const std::string& path, const char* what, int error) {
  const auto [note, is_new] =
      notes_.insert("weights and gradients go through the socket and not through shared memory: " + path + ": " + what +
                    (error == 0 ? "" : std::string(": ") + std::strerror(error)));
  if (notes_.size() > kNotesMax) {
    notes_.erase(note);
  } else if (is_new && on_note_) {
    on_note_(*note);
  }
}

SharedPayloads::~SharedPayloads() {
  StopListening();
  connections_.clear();
  if (ready_fd_ >= 0) close(ready_fd_);
}

void SharedPayloads::StopListening() {
  if (listener_ < 0) return;
  unlink(listen_path_.c_str());
  close(std::exchange(listener_, -1));
}

bool SharedPayloads::Watch(int descriptor, std::uint64_t serial) const {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = serial;
  return epoll_ctl(ready_fd_, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

// A closed descriptor would stay watched as long as a child process has a copy of it.
void SharedPayloads::Unwatch(const Connection& connection) const {
  epoll_ctl(ready_fd_, EPOLL_CTL_DEL, connection.peer.descriptor(), nullptr);
  if (connection.process >= 0) epoll_ctl(ready_fd_, EPOLL_CTL_DEL, connection.process, nullptr);
}

void SharedPayloads::WatchListener() {
  if (listener_ >= 0 && !is_listener_watched_) is_listener_watched_ = Watch(listener_, kListener);
}

void SharedPayloads::Listen(const std::string& endpoint) {
  const std::string path = PathAt(endpoint);
  const std::optional<sockaddr_un> address = SocketAddressOf(path);
  if (listener_ >= 0) return;
  if (!address) return Note(path, "socket", ENAMETOOLONG);
  const int made = ready_fd_ >= 0 ? NewSocket() : -1;
  if (made < 0) return Note(path, "socket", errno);
  struct stat old {};
  if (lstat(path.c_str(), &old) == 0 && S_ISSOCK(old.st_mode)) unlink(path.c_str());  // of a process that was killed
  if (bind(made, reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0 || listen(made, kBacklog) != 0) {
    Note(path, "listen", errno);
    close(made);
    return;
  }
  listener_ = made;
  listen_path_ = path;
  WatchListener();
}

void SharedPayloads::Connect(PeerId peer, const std::string& endpoint, std::uint64_t caller) {
  Target& target = targets_[peer.value];
  target = {.path = PathAt(endpoint), .caller = caller, .next_try = Clock::now() + kTryEvery, .pause = kTryEvery};
  Try(peer, &target);
}

void SharedPayloads::Disconnect(PeerId peer) {
  targets_.erase(peer.value);
  if (const Connection* connection = Find(peer); connection != nullptr) Drop(connection->serial);
}

void SharedPayloads::Renew(PeerId peer) {
  if (const Connection* connection = Find(peer); connection != nullptr) Drop(connection->serial);
  if (const auto target = targets_.find(peer.value); target != targets_.end())
    target->second.next_try = Clock::now() + (target->second.pause = kTryEvery);
}

SharedPayloads::Connection* SharedPayloads::Add(int socket, bool accepted) {
  auto made = std::make_unique<Connection>(socket, own_, ++serials_, accepted);
  const bool has_ended = made->process < 0 && errno == ESRCH;
  if (has_ended || !Watch(socket, serials_)) {
    const int error = errno;
    made.reset();
    return errno = error, nullptr;
  }
  if (made->process >= 0) (void)Watch(made->process, serials_ | kProcessEnded);
  return connections_.emplace(serials_, std::move(made)).first->second.get();
}

void SharedPayloads::Try(PeerId peer, Target* target) {
  if (own_->is_closed() || ready_fd_ < 0) return;
  const std::optional<sockaddr_un> address = SocketAddressOf(target->path);
  if (!address) return Note(target->path, "socket", ENAMETOOLONG);
  const auto fail = [&](const char* what) {
    // ENOENT: the server has no shared memory, or does not run yet. The others pass.
    for (const int passes : {ENOENT, ECONNREFUSED, EAGAIN, EPIPE, ESRCH})
      if (errno == passes) return;
    Note(target->path, what, errno);
  };
  const int made = NewSocket();
  if (made < 0) return fail("socket");
  if (connect(made, reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    fail("connect");
    close(made);
    return;
  }
  Connection* const connection = Add(made, false);
  if (connection == nullptr) return fail("epoll");
  if (!connection->peer.Greet(RandomId(), target->caller)) {
    fail("its first message");
    return Drop(connection->serial);
  }
  if (const Connection* old = Find(peer); old != nullptr) Drop(old->serial);
  connection_of_[peer.value] = connection;
}

void SharedPayloads::Tend(Clock::time_point now) {
  if (now < next_tend_) return;
  next_tend_ = now + kTendEvery;
  WatchListener();
  if (const int error = own_->failure(); error != 0) Note("this process", "memory that others may read", error);
  for (auto& [peer, target] : targets_) {
    const Connection* connection = Find({peer});
    if ((connection != nullptr && !connection->ended) || now < target.next_try) continue;
    target.next_try = now + target.pause;
    target.pause = std::min<Clock::duration>(2 * target.pause, kTryAtLeastEvery);
    Try({peer}, &target);
  }
  std::vector<std::uint64_t> to_drop;
  for (auto& [serial, connection] : connections_) {
    connection->peer.ReleaseCopied();
    if (connection->oldest != connection->peer.oldest_reference()) {
      connection->oldest = connection->peer.oldest_reference();
      connection->waits_since = now;
    }
    const bool stands_still = connection->oldest != 0 && now - connection->waits_since > kStopsFor;
    const bool stays_silent = connection->is_silent() && now - connection->made > kGreetsWithin;
    if (stands_still || stays_silent || (connection->ended && now - *connection->ended > kKeptFor))
      to_drop.push_back(serial);
  }
  for (const std::uint64_t serial : to_drop) Drop(serial);
}

void SharedPayloads::Handle() {
  std::array<epoll_event, kReadyAtOnce> ready;
  const int count = epoll_wait(ready_fd_, ready.data(), kReadyAtOnce, 0);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t which = ready[static_cast<std::size_t>(i)].data.u64, serial = which & ~kProcessEnded;
    if (serial == kListener) {
      Accept();
    } else if (const auto found = connections_.find(serial); found != connections_.end()) {
      if (!Take(found->second.get(), (which & kProcessEnded) != 0, Clock::now())) Drop(serial);
    }
  }
}

bool SharedPayloads::Take(Connection* connection, bool process_ended, Clock::time_point now) {
  if (connection->ended) return true;
  MemoryPeer& peer = connection->peer;
  const bool was_open = peer.is_open();
  if (!peer.Read(&room_)) {
    Note("a peer's memory", "it is not as it has to be", EPROTO);
    return false;
  }
  if (process_ended) peer.End();
  if (const int error = peer.mapping_error(); error == EDQUOT) {
    Note("a peer's memory", "as much memory of peers is mapped as may be", 0);
  } else if (error != 0) {
    Note("a peer's memory", "it cannot be mapped", error);
  }
  if (peer.has_ended()) {  // messages that it has sent before may refer to its memory: it is kept for a while
    if (!was_open) return false;
    connection->ended = now;
    Unwatch(*connection);
  }
  return Name(connection);
}

void SharedPayloads::Accept() {
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    const int made = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (made < 0 && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) {
      // There are too many open files: waits for Tend, because the listener stays ready until it is accepted from.
      epoll_ctl(ready_fd_, EPOLL_CTL_DEL, listener_, nullptr);
      is_listener_watched_ = false;
    }
    if (made < 0) return;
    const bool of_this_user = IsOfThisUser(made), has_room = HasRoom();
    if (of_this_user && has_room && LeavesDescriptors(made)) {
      Add(made, true);
      continue;
    }
    close(made);
    if (!of_this_user) continue;
    Note(listen_path_,
         has_room ? "half of the descriptors that this process may have are in use; raise ulimit -n"
                  : "it has as many connections as it takes",
         0);
  }
}

bool SharedPayloads::HasRoom() const {
  const auto silent = std::count_if(connections_.begin(), connections_.end(),
                                    [](const auto& entry) { return entry.second->is_silent(); });
  return connections_.size() < limits_.peers && static_cast<std::size_t>(silent) < limits_.silent;
}

bool SharedPayloads::Name(Connection* connection) {
  MemoryPeer& peer = connection->peer;
  if (!connection->accepted || peer.is_open() || peer.has_ended() || peer.caller() == 0) return true;
  const PeerId caller{peer.caller()};
  if (!CallsUs(caller)) return false;
  if (const Connection* old = Find(caller); old != nullptr) {
    if (!old->ended) return false;  // the number of a process that is connected
    Drop(old->serial);
  }
  if (!peer.Greet(peer.id(), caller.value)) {
    if (errno != EPIPE) Note("this process", "its first message", errno);
    return false;
  }
  connection_of_[caller.value] = connection;
  return true;
}

void SharedPayloads::Drop(std::uint64_t serial) {
  const auto found = connections_.find(serial);
  if (found == connections_.end()) return;
  Unwatch(*found->second);
  room_.regions += found->second->peer.region_count();
  room_.bytes += found->second->peer.region_bytes();
  std::erase_if(connection_of_, [&](const auto& entry) { return entry.second == found->second.get(); });
  connections_.erase(found);
}

SharedPayloads::Connection* SharedPayloads::Find(PeerId peer) {
  const auto found = connection_of_.find(peer.value);
  return found == connection_of_.end() ? nullptr : found->second;
}

std::optional<PayloadReference> SharedPayloads::Refer(PeerId to, const Slice& payload) {
  if (payload.size < kSharedFrom) return std::nullopt;
  Connection* connection = Find(to);
  return connection == nullptr ? std::nullopt : connection->peer.Refer(payload);
}

void SharedPayloads::Withdraw(PeerId to) { Find(to)->peer.Withdraw(); }

void SharedPayloads::ReleaseCopied(PeerId of) {
  if (Connection* connection = Find(of); connection != nullptr) connection->peer.ReleaseCopied();
}

Result<LentBytes> SharedPayloads::Borrow(PeerId from, std::span<const std::byte> frame, std::size_t bytes_max) {
  if (frame.size() != sizeof(PayloadReference)) return Corrupt("a payload's reference has another size");
  const PayloadReference reference = ReferenceIn(frame);
  if (reference.size < kSharedFrom || reference.size > bytes_max)
    return Corrupt("a payload of " + std::to_string(reference.size) + " bytes in another process's memory");
  Connection* connection = Find(from);
  if (connection == nullptr) return Status(Code::kStale, "a payload of a connection that has ended");
  return connection->peer.Find(reference);
}

void SharedPayloads::Return(PeerId from, std::span<const std::byte> frame) {
  const PayloadReference reference = ReferenceIn(frame);
  Connection* connection = Find(from);
  if (connection != nullptr && connection->peer.id() == reference.connection) connection->peer.Copied(reference);
}

Result<Slice> SharedPayloads::Copy(PeerId from, std::span<const std::byte> frame, std::size_t bytes_max,
                                   std::byte* place) {
  CAPSTAN_ASSIGN_OR_RETURN(const LentBytes lent, Borrow(from, frame, bytes_max));
  const std::span<const std::byte> bytes = lent.bytes;
  BufferRef buffer;
  if (place == nullptr) {
    const std::size_t rounded = (bytes.size() + kSizeUnit - 1) / kSizeUnit * kSizeUnit;
    buffer = rounded <= kKeptCopyMax ? copies_.try_emplace(rounded, rounded).first->second.Take()
                                     : BufferPool(rounded).Take();
    place = buffer->data();
  }
  std::memcpy(place, bytes.data(), bytes.size());
  Return(from, frame);
  return Slice{std::move(buffer), place, bytes.size()};
}

}  // namespace capstan
