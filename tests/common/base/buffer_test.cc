#include "common/base/buffer.h"

#include <cstring>
#include <thread>
#include <vector>

#include "common/base/mailbox.h"
#include "tests/catch.h"

namespace capstan {
namespace {

using Queue = Mailbox<BufferRef>;
constexpr auto kForever = Queue::Deadline::max();

// Counts how often a foreign buffer is released.
struct Ends {
  int count = 0;
  static void Add(void* self) { ++static_cast<Ends*>(self)->count; }
};

TEST_CASE("a pool hands a buffer out again once its last reference is gone", "[common][buffer]") {
  BufferPool pool(100);
  CHECK(pool.buffer_bytes() == 128);  // whole cache lines
  BufferRef a = pool.Take();
  Buffer* const first = a.get();
  CHECK(reinterpret_cast<std::uintptr_t>(a->data()) % 64 == 0);
  BufferRef copy = a;
  a = {};
  BufferRef b = pool.Take();
  CHECK(b.get() != first);  // still held by `copy`
  copy = {};
  BufferRef c = pool.Take();
  CHECK(c.get() == first);
  CHECK(pool.allocated_bytes() == 256);
  CHECK(pool.in_use_bytes() == 256);
  b = c = {};
  CHECK(pool.in_use_bytes() == 0);
  CHECK(pool.allocated_bytes() == 256);
}

TEST_CASE("what a pool has reserved is taken without more memory, and is used again", "[common][buffer]") {
  BufferPool pool(10'000);
  pool.Reserve(5);
  CHECK(pool.in_use_bytes() == 0);
  const std::uint64_t reserved = pool.allocated_bytes();
  CHECK(reserved >= 5 * pool.buffer_bytes());
  std::vector<BufferRef> taken;
  for (int i = 0; i < 5; ++i) taken.push_back(pool.Take());
  CHECK(pool.allocated_bytes() == reserved);
  taken.clear();
  pool.Reserve(5);
  CHECK(pool.allocated_bytes() == reserved);
}

TEST_CASE("copies, moves, self-assignment and slices count references as they should", "[common][buffer]") {
  BufferPool pool(64);
  BufferRef a = pool.Take();
  CHECK(a->reference_count() == 1);
  BufferRef b = a;
  CHECK(a->reference_count() == 2);
  BufferRef c = std::move(b);
  CHECK(!b);
  CHECK(a->reference_count() == 2);
  const BufferRef& self = a;
  a = self;
  CHECK(a->reference_count() == 2);
  {
    const Slice slice = WholeBuffer(a);
    CHECK(slice.size == 64);
    CHECK(slice.data == a->data());
    CHECK(a->reference_count() == 3);
  }
  CHECK(a->reference_count() == 2);
  c = {};
  Buffer* const bare = std::move(a).Detach();
  CHECK(pool.in_use_bytes() == 64);
  CHECK(bare->reference_count() == 1);
  a = BufferRef::Adopt(bare);
  CHECK(a->reference_count() == 1);
  a = {};
  CHECK(pool.in_use_bytes() == 0);
}

TEST_CASE("a buffer may outlive its pool", "[common][buffer]") {
  BufferRef one, two;
  {
    BufferPool pool(64);
    one = pool.Take();
    two = pool.Take();
    std::memset(one->data(), 1, one->size());
  }
  CHECK(one->data()[63] == std::byte{1});
  one = {};
  std::thread([last = std::move(two)]() mutable { last = {}; }).join();
}

TEST_CASE("foreign memory is given back once, by whoever drops the last reference", "[common][buffer]") {
  std::byte memory[16];
  Ends ends;
  BufferRef a = WrapForeign(memory, sizeof memory, &Ends::Add, &ends);
  CHECK(a->data() == memory);
  BufferRef b = a;
  a = {};
  CHECK(ends.count == 0);
  std::thread([last = std::move(b)]() mutable { last = {}; }).join();
  CHECK(ends.count == 1);
}

// One thread takes and fills buffers; three others check and release them. A buffer that returned to the pool too early
// would be overwritten while it is read. A buffer that never returned would make the pool grow.
TEST_CASE("buffers come back from other threads, whole and without a lock", "[common][buffer]") {
  constexpr int kReaders = 3, kBuffers = 20000;
  constexpr std::size_t kWaiting = 8;
  BufferPool pool(256);
  Queue queue(kWaiting);
  std::atomic<std::uint64_t> torn{0}, read{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < kReaders; ++i) {
    readers.emplace_back([&] {
      while (std::optional<BufferRef> buffer = queue.PopUntil(kForever)) {
        const BufferRef second = *buffer;  // two references, dropped by two statements
        const auto* words = second.As<std::uint64_t>();
        for (std::size_t w = 1; w < second->size() / 8; ++w) torn += words[w] != words[0] ? 1 : 0;
        ++read;
      }
    });
  }
  for (std::uint64_t i = 0; i < kBuffers; ++i) {
    BufferRef buffer = pool.Take();
    for (std::size_t w = 0; w < buffer->size() / 8; ++w) buffer.As<std::uint64_t>()[w] = i;
    while (!queue.Push(std::move(buffer)).ok()) std::this_thread::yield();
  }
  queue.Close();
  for (std::thread& reader : readers) reader.join();
  CHECK(read == kBuffers);
  CHECK(torn == 0);
  CHECK(pool.in_use_bytes() == 0);
  CHECK(pool.allocated_bytes() <= (kWaiting + 2 * kReaders + 2) * 256);
}

}  // namespace
}  // namespace capstan
