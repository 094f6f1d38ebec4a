// SharedMemory: memory of this process that other processes of this machine may read. MappedRegion: a region of such
// memory of another process.
//
// Kind:   SharedMemory: one thread at a time calls Allocate; any thread may call the rest. MappedRegion: immutable, but
//         the owner of its bytes may change them at any time.
// Limits: kRegionsMax regions, each with one file descriptor. A region has all its memory from the beginning and never
//         shrinks. The kernel frees it when its SharedMemory is gone and no process maps it.
// Fails:  Allocate returns null where the kernel gives no memory or no descriptor. Map: kInvalid for a descriptor that
//         is no region, for one whose bytes could go (a signal would end a process that reads them then), and for one
//         that lacks memory, which a process that reads it would have to give.
// Why:    two processes of one machine need no kernel copies to pass on bytes. Nobody but the owner can write to a
//         region: it is sealed (F_SEAL_FUTURE_WRITE).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "common/base/status.h"

namespace capstan {

class SharedMemory {
 public:
  static constexpr std::size_t kRegionsMax = 256;
  static constexpr std::size_t kLeastBytes = std::size_t{4} << 20, kUsualBytesMax = std::size_t{256} << 20;

  // A region has a quarter of the size of all regions before it, but at least `least_bytes` and at most
  // `usual_bytes_max`, unless a single Allocate needs more, or the kernel gives no more than that needs.
  explicit SharedMemory(std::size_t least_bytes = kLeastBytes, std::size_t usual_bytes_max = kUsualBytesMax)
      : least_bytes_(least_bytes), usual_bytes_max_(usual_bytes_max) {}
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  // Returns page-aligned memory with unspecified contents. A process that forks does not pass it on.
  std::byte* Allocate(std::size_t bytes);
  // Takes back memory from Allocate, for a call with the same size. Its bytes stay as they are until then.
  void Free(std::byte* memory, std::size_t bytes);
  // Allocate returns null from now on, and transports connect to no other memory; what was allocated stays. Call it
  // when a process learns, from its job file, that it shares nothing. Any thread may call it.
  void Close() { closed_.store(true, std::memory_order_release); }
  bool is_closed() const { return closed_.load(std::memory_order_acquire); }
  // The newest error for which Allocate has returned null, as an error number; 0: none. Any thread may call it.
  int failure() const { return failure_.load(std::memory_order_relaxed); }

  struct Place {
    std::uint32_t region = 0;
    std::uint64_t offset = 0;  // bytes from the region's begin
  };
  // Returns where these bytes lie; nothing if they are not of this memory.
  std::optional<Place> Find(std::span<const std::byte> bytes) const;

  struct Region {
    std::byte* data = nullptr;
    std::size_t size = 0;
    int descriptor = -1;
  };
  // Requires a number that Find has returned, or a smaller one.
  const Region& region(std::uint32_t index) const { return regions_[index]; }

 private:
  struct FreePiece {  // not within the memory: a peer may still copy from there
    std::byte* memory;
    std::size_t bytes;
    FreePiece* next;
  };

  const std::size_t least_bytes_, usual_bytes_max_;
  std::array<Region, kRegionsMax> regions_;
  std::atomic<bool> closed_{false};
  std::atomic<std::size_t> count_{0};  // of the regions that other threads may read
  std::atomic<int> failure_{0};
  std::size_t used_ = 0;  // bytes of the newest region
  std::size_t all_ = 0;   // bytes of all regions
  FreePiece* free_ = nullptr;
  std::atomic<FreePiece*> freed_{nullptr};
};

class MappedRegion {
 public:
  // Takes over the descriptor of a region of `size` bytes.
  static Result<std::shared_ptr<const MappedRegion>> Map(int descriptor, std::uint64_t size);
  ~MappedRegion();
  MappedRegion(const MappedRegion&) = delete;
  MappedRegion& operator=(const MappedRegion&) = delete;

  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  MappedRegion(const std::byte* data, std::size_t size) : data_(data), size_(size) {}

  const std::byte* const data_;
  const std::size_t size_;
};

}  // namespace capstan
