// MemoryPeer: a connection to another process of this machine. Over it each of the two gives the other its regions, and
// refers to payloads that lie in them.
//
// Kind:   owned by the transport's thread.
// Limits: SharedMemory::kRegionsMax regions of the peer, within a MappingRoom; kReferencesMax payloads that the peer
//         has not copied yet.
// Fails:  Find: kCorrupt for a reference that names no bytes of the peer, kStale for one of another connection.
// Why:    a payload of 1 MiB through a socket costs two copies by the kernel and its page faults. Here the receiver
//         reads it once, from where it lies, and checks the hash of the bytes that it read. So a peer that changes its
//         memory meanwhile or afterwards changes nothing.
//
// A message with such a payload has a PayloadReference in place of the payload. References are numbered. Each side
// has a page in which it writes how many regions of the peer it has mapped, and which reference it has read last. The
// peer reads this page, so no message travels back.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/buffer.h"
#include "common/base/shared_memory.h"
#include "common/base/status.h"
#include "common/base/types.h"

namespace capstan {

// The last frame of a message whose payload lies in the sender's memory.
struct PayloadReference {
  std::uint64_t connection = 0;  // chosen at random
  std::uint64_t number = 0;      // from 1, of this sender's references on the connection
  std::uint64_t offset = 0, size = 0;
  std::uint32_t region = 0, unused = 0;
};
static_assert(sizeof(PayloadReference) == 40);

// Bytes in another process's memory, and what keeps them mapped.
struct LentBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const MappedRegion> region;
};

// How much memory of other processes this one may still map.
struct MappingRoom {
  std::size_t regions = SIZE_MAX;
  std::uint64_t bytes = UINT64_MAX;
};

class MemoryPeer {
 public:
  static constexpr std::size_t kReferencesMax = 1024;

  // Takes over a connected socket (SOCK_SEQPACKET, non-blocking).
  MemoryPeer(int socket, std::shared_ptr<const SharedMemory> own);
  ~MemoryPeer();
  MemoryPeer(const MemoryPeer&) = delete;
  MemoryPeer& operator=(const MemoryPeer&) = delete;

  int descriptor() const { return socket_; }
  std::uint64_t id() const { return id_; }
  std::uint64_t caller() const { return caller_; }  // 0 until the Greeting is here
  // Whether both ends have greeted each other, and the peer's end is still there.
  bool is_open() const { return greeted_ && was_greeted_ && !ended_; }
  // Whether the peer has closed its end, or its process has ended. What it has referred to before can still be copied.
  bool has_ended() const { return ended_; }
  // Why a region of the peer is not mapped, as an error number (EDQUOT: there was no room for it); 0: all are.
  int mapping_error() const { return mapping_error_; }
  // How many regions of the peer are mapped, and how many bytes they have.
  std::size_t region_count() const { return peer_regions_.size(); }
  std::uint64_t region_bytes() const { return region_bytes_; }
  // The oldest reference that the peer has not copied yet; 0: it has copied all.
  std::uint64_t oldest_reference() const { return referred_.empty() ? 0 : referred_.front().number; }

  // Sends this side's Greeting. The side that connects chooses `id` at random; `caller` is its number at the other
  // side's transport. The other side repeats both. Returns false, with errno, if that failed.
  bool Greet(std::uint64_t id, std::uint64_t caller);
  // Call it when the peer's process has ended: a child of that process may keep the connection open.
  void End();
  // Reads what has arrived, also the end of the connection. Returns false if the peer breaks the rules. A region that
  // cannot be mapped, or has no room, is left out, and so are all later ones: the peer then sends their payloads
  // through the socket. What is mapped is taken from `room`.
  bool Read(MappingRoom* room);
  bool Read() {
    MappingRoom room;
    return Read(&room);
  }

  // Returns the reference to send for a payload, which stays referred to until the peer has copied it. Returns nothing
  // if the payload does not lie in this process's regions, if the peer has not mapped its region yet, or if the peer
  // has not copied kReferencesMax others.
  std::optional<PayloadReference> Refer(const Slice& payload);
  // Forgets the last reference of Refer, which was not sent.
  void Withdraw();
  // Drops the payloads that the peer has copied.
  void ReleaseCopied();
  // Returns the peer's bytes. They may change at any time: read each byte once, call Copied, then check the bytes that
  // were read.
  Result<LentBytes> Find(const PayloadReference& reference);
  // Tells the peer that its payload was copied, or was read where it lies.
  void Copied(const PayloadReference& reference);

 private:
  struct Page {
    std::atomic<std::uint64_t> copied{0};   // the newest of the peer's references that this side has copied
    std::atomic<std::uint64_t> regions{0};  // the peer's regions that this side has mapped
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "two processes share such a number");
  struct Packet {
    std::uint64_t kind = 0;
    std::uint64_t connection = 0, caller = 0;  // only a Greeting has them
    std::uint64_t size = 0;                    // how many bytes the descriptor's memory has
  };
  struct Referred {
    std::uint64_t number = 0;
    BufferRef owner;
  };

  const Page& peer_page() const { return *reinterpret_cast<const Page*>(peer_page_->data()); }
  bool SendPacket(const Packet& packet, int descriptor);
  bool Take(const Packet& packet, int descriptor, MappingRoom* room);
  // Whether the rules allow such a packet now.
  bool MayCome(const Packet& packet) const;

  const int socket_;
  const std::shared_ptr<const SharedMemory> own_;
  std::uint64_t id_ = 0, caller_ = 0;
  bool greeted_ = false, was_greeted_ = false, ended_ = false;
  int mapping_error_ = 0;

  SharedMemory page_memory_{sizeof(Page)};
  Page* page_ = nullptr;  // null: this side has not greeted
  std::shared_ptr<const MappedRegion> peer_page_;
  std::vector<std::shared_ptr<const MappedRegion>> peer_regions_;
  std::uint64_t region_bytes_ = 0;
  std::size_t offered_regions_ = 0;  // by the peer, also those that are not mapped

  std::uint32_t given_regions_ = 0;
  std::uint64_t reference_count_ = 0;
  std::deque<Referred> referred_;
};

}  // namespace capstan
