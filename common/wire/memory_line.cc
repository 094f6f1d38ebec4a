#include "common/wire/memory_line.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace capstan {
namespace {

constexpr std::uint64_t kGreeting = 0x316e6c6d70616331, kSegment = 0x326e6c6d70616331;  // what a packet is
constexpr int kPacketsAtOnce = 64;

const std::atomic<std::uint64_t>& NumberIn(const MappedSegment& page) {
  return *reinterpret_cast<const std::atomic<std::uint64_t>*>(page.data());
}

}  // namespace

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "two processes share such a number");

MemoryLine::MemoryLine(int socket, std::shared_ptr<const SharedMemory> own) : socket_(socket), own_(std::move(own)) {
  if (std::byte* page = page_.Allocate(sizeof *copied_); page != nullptr) copied_ = new (page) std::atomic<std::uint64_t>(0);
}

MemoryLine::~MemoryLine() { close(socket_); }

bool MemoryLine::SendPacket(const Packet& packet, int descriptor) {
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

bool MemoryLine::Greet(std::uint64_t id, std::uint64_t caller) {
  if (copied_ == nullptr) return false;
  id_ = id;
  caller_ = caller;
  const SharedMemory::Segment& page = page_.segment(0);
  greeted_ = SendPacket({kGreeting, id, caller, page.size}, page.descriptor);
  return greeted_;
}

bool MemoryLine::Read() {
  for (int i = 0; i < kPacketsAtOnce && !broken_; ++i) {
    Packet packet;
    iovec part{&packet, sizeof packet};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = recvmsg(socket_, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    int descriptor = -1;  // with more descriptors than one the kernel closes the others and sets MSG_CTRUNC
    const cmsghdr* header = got > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
    if (header != nullptr && header->cmsg_type == SCM_RIGHTS && header->cmsg_len == CMSG_LEN(sizeof(int)))
      std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
    const bool whole = got == static_cast<ssize_t>(sizeof packet) && (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
    if (!whole || descriptor < 0) {
      if (descriptor >= 0) close(descriptor);
      broken_ = true;
    } else {
      broken_ = !Take(packet, descriptor);
    }
  }
  return !broken_;
}

bool MemoryLine::Take(const Packet& packet, int descriptor) {
  Result<std::shared_ptr<const MappedSegment>> mapped = MappedSegment::Map(descriptor, packet.size);
  if (!mapped.ok()) return false;
  if (packet.kind == kSegment) {
    if (!heard_ || peer_segments_.size() == SharedMemory::kSegmentsMax) return false;
    peer_segments_.push_back(std::move(*mapped));
    return true;
  }
  if (packet.kind != kGreeting || heard_ || (*mapped)->size() < sizeof *copied_) return false;
  if (greeted_ && (packet.line != id_ || packet.caller != caller_)) return false;
  heard_ = true;
  id_ = packet.line;
  caller_ = packet.caller;
  peer_page_ = std::move(*mapped);
  return true;
}

std::optional<PayloadReference> MemoryLine::Refer(const Slice& payload) {
  if (!is_open() || broken_ || own_ == nullptr || !payload.owner) return std::nullopt;
  const std::optional<SharedMemory::Place> place = own_->Find(payload.bytes());
  if (!place) return std::nullopt;
  ReleaseCopied();
  if (referred_.size() == kReferencesMax) return std::nullopt;
  while (given_segments_ <= place->segment) {
    const SharedMemory::Segment& segment = own_->segment(given_segments_);
    if (!SendPacket({kSegment, id_, caller_, segment.size}, segment.descriptor)) return std::nullopt;
    ++given_segments_;
  }
  referred_.push_back({++reference_count_, payload.owner});
  return PayloadReference{id_, reference_count_, place->offset, payload.size, place->segment, 0};
}

void MemoryLine::Withdraw() {
  referred_.pop_back();
  --reference_count_;
}

void MemoryLine::ReleaseCopied() {
  if (referred_.empty()) return;
  const std::uint64_t copied = NumberIn(*peer_page_).load(std::memory_order_acquire);
  while (!referred_.empty() && referred_.front().number <= copied) referred_.pop_front();
}

Result<std::span<const std::byte>> MemoryLine::Find(const PayloadReference& reference) {
  if (!heard_ || reference.line != id_) return Status(Code::kStale, "a payload of a connection that has ended");
  // The peer gave the segment before it sent the reference.
  if (reference.segment >= peer_segments_.size() && !Read()) return Status(Code::kStale, "the connection has ended");
  if (reference.segment >= peer_segments_.size() || reference.number <= copied_->load(std::memory_order_relaxed))
    return Corrupt("a payload that its sender does not have");
  const MappedSegment& segment = *peer_segments_[reference.segment];
  if (reference.offset > segment.size() || reference.size > segment.size() - reference.offset) {
    return Corrupt("a payload of " + std::to_string(reference.size) + " bytes from byte " +
                   std::to_string(reference.offset) + " of a segment of " + std::to_string(segment.size()));
  }
  return std::span<const std::byte>(segment.data() + reference.offset, reference.size);
}

void MemoryLine::Copied(const PayloadReference& reference) { copied_->store(reference.number, std::memory_order_release); }

}  // namespace capstan
