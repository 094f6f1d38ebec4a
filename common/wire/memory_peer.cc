#include "common/wire/memory_peer.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace capstan {
namespace {

constexpr std::uint64_t kGreeting = 0x316e6c6d70616331, kRegion = 0x326e6c6d70616331;  // what a packet is
constexpr int kPacketsAtOnce = 64;
constexpr std::uint64_t kPageBytesMax = 4096;  // SharedMemory has no smaller region

}  // namespace

MemoryPeer::MemoryPeer(int socket, std::shared_ptr<const SharedMemory> own) : socket_(socket), own_(std::move(own)) {}

MemoryPeer::~MemoryPeer() {
  shutdown(socket_, SHUT_RDWR);  // a child of a fork may have the descriptor, too
  close(socket_);
}

bool MemoryPeer::SendPacket(const Packet& packet, int descriptor) {
  Packet copy = packet;
  iovec part{&copy, sizeof copy};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  return sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(sizeof copy);
}

bool MemoryPeer::Greet(std::uint64_t id, std::uint64_t caller) {
  std::byte* const memory = page_memory_.Allocate(sizeof(Page));
  if (memory == nullptr) return errno = page_memory_.failure(), false;
  page_ = new (memory) Page;
  id_ = id;
  caller_ = caller;
  const SharedMemory::Region& region = page_memory_.region(0);
  greeted_ = SendPacket({kGreeting, id, caller, region.size}, region.descriptor);
  return greeted_;
}

void MemoryPeer::End() {
  ended_ = true;
  referred_.clear();  // the peer copies nothing any more
}

bool MemoryPeer::Read(MappingRoom* room) {
  for (int i = 0; i < kPacketsAtOnce; ++i) {
    Packet packet;
    iovec part{&packet, sizeof packet};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = CMSG_LEN(sizeof(int));  // room for one descriptor: the kernel closes the others
    const ssize_t got = recvmsg(socket_, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (got < 0 && errno == ECONNRESET) return End(), true;
    int descriptor = -1;
    const cmsghdr* header = got >= 0 ? CMSG_FIRSTHDR(&message) : nullptr;
    if (header != nullptr && header->cmsg_type == SCM_RIGHTS && header->cmsg_len == CMSG_LEN(sizeof(int)))
      std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
    if (got == 0 && descriptor < 0) return End(), true;  // an empty packet with a descriptor is not the end
    const bool whole = got == static_cast<ssize_t>(sizeof packet) && (message.msg_flags & MSG_TRUNC) == 0;
    const bool cut = (message.msg_flags & MSG_CTRUNC) != 0;  // there was another descriptor, or no room for this one
    if (whole && cut && descriptor < 0 && packet.kind == kRegion && was_greeted_) {
      mapping_error_ = EMFILE;
      continue;
    }
    if ((!whole || cut) && descriptor >= 0) close(descriptor);
    if (!whole || cut || descriptor < 0 || !Take(packet, descriptor, room)) return End(), false;
  }
  return true;
}

bool MemoryPeer::MayCome(const Packet& packet) const {
  if (packet.kind == kRegion) return was_greeted_ && page_ != nullptr && offered_regions_ < SharedMemory::kRegionsMax;
  const bool is_ours = !greeted_ || (packet.connection == id_ && packet.caller == caller_);
  return packet.kind == kGreeting && !was_greeted_ && is_ours && packet.size >= sizeof(Page) &&
         packet.size <= kPageBytesMax;
}

bool MemoryPeer::Take(const Packet& packet, int descriptor, MappingRoom* room) {
  if (!MayCome(packet)) return close(descriptor), false;
  const bool is_region = packet.kind == kRegion;
  if (is_region) {
    ++offered_regions_;
    if (mapping_error_ == 0 && (room->regions == 0 || packet.size > room->bytes)) mapping_error_ = EDQUOT;
    if (mapping_error_ != 0) return close(descriptor), true;
  }
  Result<std::shared_ptr<const MappedRegion>> mapped = MappedRegion::Map(descriptor, packet.size);
  if (mapped.status().code() == Code::kUnreachable && is_region) return mapping_error_ = ENOMEM, true;
  if (!mapped.ok()) return false;
  if (is_region) {
    --room->regions;
    room->bytes -= packet.size;
    region_bytes_ += packet.size;
    peer_regions_.push_back(std::move(*mapped));
    page_->regions.store(peer_regions_.size(), std::memory_order_release);
    return true;
  }
  was_greeted_ = true;
  id_ = packet.connection;
  caller_ = packet.caller;
  peer_page_ = std::move(*mapped);
  return true;
}

std::optional<PayloadReference> MemoryPeer::Refer(const Slice& payload) {
  if (!is_open() || own_ == nullptr || !payload.owner) return std::nullopt;
  const std::optional<SharedMemory::Place> place = own_->Find(payload.bytes());
  if (!place) return std::nullopt;
  ReleaseCopied();
  if (referred_.size() == kReferencesMax) return std::nullopt;
  while (given_regions_ <= place->region) {
    const SharedMemory::Region& region = own_->region(given_regions_);
    if (!SendPacket({kRegion, id_, caller_, region.size}, region.descriptor)) return std::nullopt;
    ++given_regions_;
  }
  if (peer_page().regions.load(std::memory_order_acquire) <= place->region) return std::nullopt;
  referred_.push_back({++reference_count_, payload.owner});
  return PayloadReference{id_, reference_count_, place->offset, payload.size, place->region, 0};
}

void MemoryPeer::Withdraw() {
  referred_.pop_back();
  --reference_count_;
}

void MemoryPeer::ReleaseCopied() {
  if (referred_.empty()) return;
  const std::uint64_t copied = peer_page().copied.load(std::memory_order_acquire);
  while (!referred_.empty() && referred_.front().number <= copied) referred_.pop_front();
}

Result<LentBytes> MemoryPeer::Find(const PayloadReference& reference) {
  if (!was_greeted_ || reference.connection != id_)
    return Status(Code::kStale, "a payload of a connection that has ended");
  if (reference.region >= peer_regions_.size() || reference.number <= page_->copied.load(std::memory_order_relaxed))
    return Corrupt("a payload that its sender does not have");
  const std::shared_ptr<const MappedRegion>& region = peer_regions_[reference.region];
  if (reference.offset > region->size() || reference.size > region->size() - reference.offset) {
    return Corrupt("a payload of " + std::to_string(reference.size) + " bytes from byte " +
                   std::to_string(reference.offset) + " of a region of " + std::to_string(region->size()));
  }
  return LentBytes{{region->data() + reference.offset, reference.size}, region};
}

void MemoryPeer::Copied(const PayloadReference& reference) {
  page_->copied.store(reference.number, std::memory_order_release);
}

}  // namespace capstan
