// Buffer, BufferRef, Slice, BufferPool: the memory that weights and gradients travel in.
//
// Kind:   a Buffer is reference-counted; a pool is owned by one thread, but any thread may return buffers to it.
// Limits: a pool never frees a buffer while the pool exists; its owner bounds how many are in use.
// Why:    payloads are not copied: a received frame is kept as the staged gradient, and a published block is sent as it
//         is. So a payload stays valid as long as a reference to it exists, on any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace capstan {

class SharedMemory;

// A reference-counted piece of memory. BufferPool makes it, or WrapForeign for memory that belongs to a caller.
class Buffer {
 public:
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  // The number of references that exist now. Other threads can drop theirs at any time. A thread that finds that all
  // of them are its own may write to the buffer: no other thread can make a reference any more.
  std::uint32_t reference_count() const { return references_.load(std::memory_order_acquire); }

 private:
  friend class BufferRef;
  friend class BufferPool;
  friend class BufferRecycler;
  using Release = void (*)(Buffer*);

  Buffer(std::byte* data, std::size_t size, Release release) : data_(data), size_(size), release_(release) {}
  friend struct ForeignBuffer;

  std::byte* data_;
  std::size_t size_;
  Release release_;  // called by the thread that drops the last reference
  std::atomic<std::uint32_t> references_{0};
  Buffer* next_free_ = nullptr;                 // next in the list of returned buffers
  std::shared_ptr<class BufferRecycler> home_;  // the pool's return list, kept alive by every buffer that is out
};

class BufferRef {
 public:
  BufferRef() = default;
  explicit BufferRef(Buffer* buffer) : buffer_(buffer) { Retain(); }
  BufferRef(const BufferRef& other) : buffer_(other.buffer_) { Retain(); }
  BufferRef(BufferRef&& other) noexcept : buffer_(std::exchange(other.buffer_, nullptr)) {}
  BufferRef& operator=(const BufferRef& other) { return *this = BufferRef(other); }
  BufferRef& operator=(BufferRef&& other) noexcept {
    BufferRef before(std::move(other));
    std::swap(buffer_, before.buffer_);
    return *this;
  }
  ~BufferRef() { Drop(); }

  // Turns the reference into a bare pointer, for the context of a C callback. Adopt must take back each such pointer
  // exactly once.
  Buffer* Detach() && { return std::exchange(buffer_, nullptr); }
  static BufferRef Adopt(Buffer* detached) {
    BufferRef reference;
    reference.buffer_ = detached;
    return reference;
  }

  explicit operator bool() const { return buffer_ != nullptr; }
  Buffer* get() const { return buffer_; }
  Buffer* operator->() const { return buffer_; }
  // The buffer as elements of type T. A pool's buffer is at least 64-byte aligned, a foreign one may not be.
  template <class T>
  T* As() const {
    return reinterpret_cast<T*>(buffer_->data());
  }

 private:
  void Retain() const {
    if (buffer_ != nullptr) buffer_->references_.fetch_add(1, std::memory_order_relaxed);
  }
  void Drop() {
    if (buffer_ != nullptr && buffer_->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      buffer_->release_(buffer_);
    }
  }
  Buffer* buffer_ = nullptr;
};

// Bytes within a buffer: a message's payload. Empty when the message has none. Without an owner, somebody else's memory
// (TransportOptions::place and lend).
struct Slice {
  BufferRef owner;
  const std::byte* data = nullptr;
  std::size_t size = 0;

  bool empty() const { return size == 0; }
  std::span<const std::byte> bytes() const { return {data, size}; }
};

inline Slice WholeBuffer(BufferRef buffer) {
  const std::byte* data = buffer->data();
  const std::size_t size = buffer->size();
  return {std::move(buffer), data, size};
}

// Wraps memory that the caller owns. The thread that drops the last reference calls `done(context)`.
BufferRef WrapForeign(std::byte* data, std::size_t size, void (*done)(void*), void* context);

// A pool of buffers of one size. Only the owner's thread calls Take(); any thread may drop references, even after the
// pool is destroyed.
class BufferPool {
 public:
  // The buffers lie in `memory` as long as that has room, so that other processes can read them; null: they are
  // private.
  explicit BufferPool(std::size_t buffer_bytes, std::shared_ptr<SharedMemory> memory = nullptr);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // Returns a buffer of the pool's size with unspecified contents. Allocates memory only if no buffer is free.
  BufferRef Take();

  // Makes so many buffers free, with memory that the kernel has given: taking them then waits for nothing.
  void Reserve(std::size_t count);

  std::size_t buffer_bytes() const { return buffer_bytes_; }
  // Bytes of all buffers of the pool, in use or free.
  std::uint64_t allocated_bytes() const { return allocated_bytes_; }
  std::uint64_t in_use_bytes() const;

 private:
  void Grow();

  std::size_t buffer_bytes_;
  std::uint64_t allocated_bytes_ = 0;
  std::shared_ptr<BufferRecycler> recycler_;  // also keeps the memory
  Buffer* free_ = nullptr;                    // list of free buffers, taken from the recycler in one exchange
};

}  // namespace capstan
