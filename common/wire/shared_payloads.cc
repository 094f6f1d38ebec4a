#include "common/wire/shared_payloads.h"

#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/process_address.h"
#include "common/wire/routing_id.h"

namespace capstan {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kTryEvery = std::chrono::seconds(1);
constexpr auto kTendEvery = std::chrono::milliseconds(50);
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

bool IsOfThisUser(int descriptor) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

std::uint64_t RandomId() {
  std::uint64_t id = 0;
  CAPSTAN_CHECK(getrandom(&id, sizeof id, 0) == sizeof id);
  return id;
}

}  // namespace

std::size_t ReferredSize(std::span<const std::byte> frame) {
  PayloadReference reference;
  if (frame.size() != sizeof reference) return 0;
  std::memcpy(&reference, frame.data(), sizeof reference);
  return reference.size;
}

SharedPayloads::SharedPayloads(std::shared_ptr<const SharedMemory> own, OnNote on_note)
    : own_(std::move(own)), on_note_(std::move(on_note)), ready_fd_(epoll_create1(EPOLL_CLOEXEC)) {}

void SharedPayloads::Note(const std::string& path, const char* what, int error) const {
  if (on_note_) {
    on_note_("weights and gradients go through the socket and not through shared memory: " + path + ": " + what + ": " +
             std::strerror(error));
  }
}

SharedPayloads::~SharedPayloads() {
  peers_.clear();
  if (listener_ >= 0) {
    unlink(listen_path_.c_str());
    close(listener_);
  }
  if (ready_fd_ >= 0) close(ready_fd_);
}

void SharedPayloads::Watch(int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = descriptor;
  (void)epoll_ctl(ready_fd_, EPOLL_CTL_ADD, descriptor, &event);
}

void SharedPayloads::Listen(const std::string& endpoint) {
  const std::string path = PathAt(endpoint);
  const std::optional<sockaddr_un> address = SocketAddressOf(path);
  if (listener_ >= 0) return;
  if (!address) return Note(path, "socket", ENAMETOOLONG);
  const int made = ready_fd_ >= 0 ? NewSocket() : -1;
  if (made < 0) return Note(path, "socket", errno);
  unlink(path.c_str());  // of an earlier process: whoever listens at the endpoint owns its neighbour too
  if (bind(made, reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0 || listen(made, kBacklog) != 0) {
    Note(path, "listen", errno);
    close(made);
    return;
  }
  listener_ = made;
  listen_path_ = path;
  Watch(listener_);
}

void SharedPayloads::Connect(PeerId peer, const std::string& endpoint, std::uint64_t caller) {
  Target& target = targets_[peer.value];
  target = {PathAt(endpoint), caller, Clock::now() + kTryEvery};
  Try(peer, &target);
}

void SharedPayloads::Disconnect(PeerId peer) {
  targets_.erase(peer.value);
  if (const auto other = peer_of_.find(peer.value); other != peer_of_.end()) Drop(other->second->descriptor());
}

void SharedPayloads::Try(PeerId peer, Target* target) {
  const std::optional<sockaddr_un> address = SocketAddressOf(target->path);
  const int made = address && ready_fd_ >= 0 ? NewSocket() : -1;
  if (made < 0) return;
  const auto fail = [&](const char* what) {
    // Nobody is there: a server without shared memory, or one that is not up yet.
    if (errno == ENOENT || errno == ECONNREFUSED || errno == target->failure) return;
    Note(target->path, what, target->failure = errno);
  };
  if (connect(made, reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    fail("connect");
    close(made);
    return;
  }
  auto other = std::make_unique<MemoryPeer>(made, own_);
  if (!other->Greet(RandomId(), target->caller)) return fail("memfd_create");
  peer_of_[peer.value] = other.get();
  peers_.emplace(made, std::move(other));
  Watch(made);
}

void SharedPayloads::Tend(Clock::time_point now) {
  if (now < next_tend_) return;
  next_tend_ = now + kTendEvery;
  for (auto& [peer, target] : targets_) {
    if (peer_of_.contains(peer) || now < target.next_try) continue;
    target.next_try = now + kTryEvery;
    Try({peer}, &target);
  }
  for (auto& [descriptor, other] : peers_) other->ReleaseCopied();
}

void SharedPayloads::Handle() {
  std::array<epoll_event, kReadyAtOnce> ready;
  const int count = epoll_wait(ready_fd_, ready.data(), kReadyAtOnce, 0);
  for (int i = 0; i < count; ++i) {
    const int descriptor = ready[static_cast<std::size_t>(i)].data.fd;
    if (descriptor == listener_) {
      Accept();
    } else if (const auto other = peers_.find(descriptor); other != peers_.end()) {
      if (!other->second->Read() || !Name(other->second.get())) Drop(descriptor);
    }
  }
}

void SharedPayloads::Accept() {
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    const int made = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (made < 0) return;
    if (!IsOfThisUser(made) || peers_.size() == kPeersMax) {
      close(made);
      continue;
    }
    peers_.emplace(made, std::make_unique<MemoryPeer>(made, own_));
    Watch(made);
  }
}

bool SharedPayloads::Name(MemoryPeer* other) {
  if (other->is_open() || other->caller() == 0) return true;
  const PeerId caller{other->caller()};
  if (!CallsUs(caller)) return false;
  if (peer_of_.contains(caller.value)) return false;  // the number of a process that is connected
  if (!other->Greet(other->id(), caller.value)) return false;
  peer_of_[caller.value] = other;
  return true;
}

void SharedPayloads::Drop(int descriptor) {
  const auto other = peers_.find(descriptor);
  if (other == peers_.end()) return;
  std::erase_if(peer_of_, [&](const auto& entry) { return entry.second == other->second.get(); });
  peers_.erase(other);
}

MemoryPeer* SharedPayloads::Find(PeerId peer) {
  const auto other = peer_of_.find(peer.value);
  return other == peer_of_.end() ? nullptr : other->second;
}

std::optional<PayloadReference> SharedPayloads::Refer(PeerId to, const Slice& payload) {
  if (payload.size < kSharedFrom) return std::nullopt;
  MemoryPeer* other = Find(to);
  return other == nullptr ? std::nullopt : other->Refer(payload);
}

void SharedPayloads::Withdraw(PeerId to) { Find(to)->Withdraw(); }

void SharedPayloads::ReleaseCopied(PeerId of) {
  if (MemoryPeer* other = Find(of); other != nullptr) other->ReleaseCopied();
}

Result<Slice> SharedPayloads::Copy(PeerId from, std::span<const std::byte> frame, std::size_t bytes_max) {
  PayloadReference reference;
  if (frame.size() != sizeof reference) return Corrupt("a payload's reference has another size");
  std::memcpy(&reference, frame.data(), sizeof reference);
  if (reference.size < kSharedFrom || reference.size > bytes_max)
    return Corrupt("a payload of " + std::to_string(reference.size) + " bytes in another process's memory");
  if (Find(from) == nullptr) Handle();  // it may have just been made
  MemoryPeer* other = Find(from);
  if (other == nullptr) return Status(Code::kStale, "a payload of a connection that has ended");
  CAPSTAN_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, other->Find(reference));
  BufferRef copy = BufferFor(bytes.size());
  std::memcpy(copy->data(), bytes.data(), bytes.size());
  other->Copied(reference);
  const std::byte* data = copy->data();
  return Slice{std::move(copy), data, bytes.size()};
}

BufferRef SharedPayloads::BufferFor(std::size_t bytes) {
  const auto size_class = static_cast<std::size_t>(std::bit_width((bytes - 1) / kSharedFrom));
  while (copies_.size() <= size_class) copies_.push_back(std::make_unique<BufferPool>(kSharedFrom << copies_.size()));
  return copies_[size_class]->Take();
}

}  // namespace capstan
