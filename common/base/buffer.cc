#include "common/base/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <new>

#include "common/base/shared_memory.h"

namespace capstan {

namespace {

constexpr std::size_t kAlignment = 64, kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kSlabBytes = std::size_t{16} << 20;

std::size_t RoundUp(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

struct FreeSlab {
  void operator()(std::byte* slab) const {
    if (memory != nullptr) return memory->Free(slab, bytes);
    ::operator delete(slab, alignment);
  }
  std::align_val_t alignment{kAlignment};
  SharedMemory* memory = nullptr;  // null: the slab is private
  std::size_t bytes = 0;
};
using Slab = std::unique_ptr<std::byte, FreeSlab>;

// Allocates the memory of one or more buffers; throws std::bad_alloc if there is none. Slabs of 2 MiB or more ask for
// huge pages: with small pages, address lookups (TLB misses) took a tenth of the time of a pass over the weights.
Slab AllocateSlab(std::size_t bytes, SharedMemory* shared) {
  if (std::byte* slab = shared != nullptr ? shared->Allocate(bytes) : nullptr; slab != nullptr)
    return Slab(slab, FreeSlab{.memory = shared, .bytes = bytes});
  const bool huge = bytes >= kHugePage;
  const std::size_t alignment = huge ? kHugePage : kAlignment, rounded = RoundUp(bytes, alignment);
  void* memory = ::operator new (rounded, std::align_val_t{alignment});
  if (huge) (void)madvise(memory, rounded, MADV_HUGEPAGE);  // a hint that some kernels refuse
  return Slab(static_cast<std::byte*>(memory), FreeSlab{.alignment = std::align_val_t{alignment}});
}

}  // namespace

// Owns the memory of a pool's buffers and the lock-free list of returned buffers. It outlives the pool for as long as
// a buffer is in use.
class BufferRecycler {
 public:
  ~BufferRecycler() { DeleteAll(returned_.load(std::memory_order_acquire)); }

  static void Return(Buffer* buffer) {
    const std::shared_ptr<BufferRecycler> home = std::move(buffer->home_);  // may be the recycler's last reference
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

  static void DeleteAll(Buffer* list) {
    while (list != nullptr) {
      Buffer* next = list->next_free_;
      delete list;
      list = next;
    }
  }

  std::atomic<std::uint64_t> in_use_{0};
  std::shared_ptr<SharedMemory> memory_;  // null: every slab is private
  std::vector<Slab> slabs_;  // used by the pool's owner and, at the end, by the thread that drops the last reference

 private:
  std::atomic<Buffer*> returned_{nullptr};
};

BufferPool::BufferPool(std::size_t buffer_bytes, std::shared_ptr<SharedMemory> memory)
    : buffer_bytes_(RoundUp(buffer_bytes, kAlignment)), recycler_(std::make_shared<BufferRecycler>()) {
  recycler_->memory_ = std::move(memory);
}

BufferPool::~BufferPool() { BufferRecycler::DeleteAll(free_); }

// Adds a slab with as many buffers as the pool already has, up to a limit. So a pool is at most about twice as large as
// its peak use.
void BufferPool::Grow() {
  const std::size_t made = allocated_bytes_ / buffer_bytes_;
  const std::size_t count = std::clamp<std::size_t>(kSlabBytes / buffer_bytes_, 1, std::max<std::size_t>(made, 1));
  std::byte* slab = recycler_->slabs_.emplace_back(AllocateSlab(count * buffer_bytes_, recycler_->memory_.get())).get();
  for (std::size_t i = count; i-- > 0;) {
    auto* buffer = new Buffer(slab + i * buffer_bytes_, buffer_bytes_, &BufferRecycler::Return);
    buffer->next_free_ = std::exchange(free_, buffer);
  }
  allocated_bytes_ += count * buffer_bytes_;
}

void BufferPool::Reserve(std::size_t count) {
  std::vector<BufferRef> taken;
  taken.reserve(count);
  while (taken.size() < count) {
    const BufferRef& buffer = taken.emplace_back(Take());
    for (std::size_t page = 0; page < buffer->size(); page += kPage) buffer->data()[page] = std::byte{0};
  }
}

BufferRef BufferPool::Take() {
  if (free_ == nullptr) free_ = recycler_->TakeAll();
  if (free_ == nullptr) Grow();
  Buffer* buffer = free_;
  free_ = std::exchange(buffer->next_free_, nullptr);
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
