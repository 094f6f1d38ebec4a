#include "common/buffer.h"

#include <cstdlib>
#include <new>

#include "common/status.h"

namespace capstan {

namespace {
constexpr std::size_t kAlignment = 64;
}

// The lock-free list that buffers return to. It outlives the pool while any of its buffers is still out.
class BufferRecycler {
 public:
  ~BufferRecycler() { FreeAll(returned_.load(std::memory_order_acquire)); }

  static void Return(Buffer* buffer) {
    const std::shared_ptr<BufferRecycler> home = std::move(buffer->home_);  // may be what keeps the recycler alive
    home->Push(buffer);
  }

  void Push(Buffer* buffer) {
    in_use_.fetch_sub(1, std::memory_order_relaxed);
    Buffer* head = returned_.load(std::memory_order_relaxed);
    do {
      buffer->next_free_ = head;
    } while (!returned_.compare_exchange_weak(head, buffer, std::memory_order_release, std::memory_order_relaxed));
  }

  Buffer* TakeAll() { return returned_.exchange(nullptr, std::memory_order_acquire); }

  static void FreeAll(Buffer* list) {
    while (list != nullptr) {
      Buffer* next = list->next_free_;
      std::free(list->data_);
      delete list;
      list = next;
    }
  }

  std::atomic<std::uint64_t> in_use_{0};

 private:
  std::atomic<Buffer*> returned_{nullptr};
};

BufferPool::BufferPool(std::size_t buffer_bytes)
    : buffer_bytes_((buffer_bytes + kAlignment - 1) / kAlignment * kAlignment),
      recycler_(std::make_shared<BufferRecycler>()) {}

BufferPool::~BufferPool() { BufferRecycler::FreeAll(free_); }

BufferRef BufferPool::Take() {
  if (free_ == nullptr) free_ = recycler_->TakeAll();
  Buffer* buffer = free_;
  if (buffer != nullptr) {
    free_ = buffer->next_free_;
  } else {
    auto* data = static_cast<std::byte*>(std::aligned_alloc(kAlignment, buffer_bytes_));
    CAPSTAN_CHECK(data != nullptr);
    buffer = new Buffer(data, buffer_bytes_, &BufferRecycler::Return);
    allocated_bytes_ += buffer_bytes_;
  }
  buffer->next_free_ = nullptr;
  buffer->home_ = recycler_;
  recycler_->in_use_.fetch_add(1, std::memory_order_relaxed);
  return BufferRef(buffer);
}

std::uint64_t BufferPool::in_use_bytes() const {
  return recycler_->in_use_.load(std::memory_order_relaxed) * buffer_bytes_;
}

struct ForeignBuffer : Buffer {
  ForeignBuffer(std::byte* data, std::size_t size, void (*done)(void*), void* context)
      : Buffer(data, size, &Finish), done_(done), context_(context) {}

  static void Finish(Buffer* buffer) {
    auto* self = static_cast<ForeignBuffer*>(buffer);
    self->done_(self->context_);
    delete self;
  }

  void (*done_)(void*);
  void* context_;
};

BufferRef WrapForeign(std::byte* data, std::size_t size, void (*done)(void*), void* context) {
  return BufferRef(new ForeignBuffer(data, size, done, context));
}

}  // namespace capstan
