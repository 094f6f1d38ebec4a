#include "common/base/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "common/base/buffer.h"
#include "tests/catch.h"

namespace capstan {
namespace {

std::span<const std::byte> Piece(const std::byte* data, std::size_t size) { return {data, size}; }

TEST_CASE("memory is found by its address, and only as a whole", "[common][shared_memory]") {
  SharedMemory memory(4096);
  std::byte* const first = memory.Allocate(100);
  std::byte* const second = memory.Allocate(5000);  // a second region
  REQUIRE(first != nullptr);
  REQUIRE(second != nullptr);
  CHECK(memory.Find(Piece(first, 100))->region == 0);
  const auto place = memory.Find(Piece(second + 8, 4992));
  REQUIRE(place);
  CHECK(place->region == 1);
  CHECK(memory.region(1).data + place->offset == second + 8);
  CHECK_FALSE(memory.Find(Piece(first, 4097)));  // it goes beyond the region
  const std::byte other{};
  CHECK_FALSE(memory.Find(Piece(&other, 1)));
}

TEST_CASE("memory that was freed is used again, for the same size", "[common][shared_memory]") {
  SharedMemory memory(1 << 20);
  std::byte* const a = memory.Allocate(10'000);
  std::byte* const b = memory.Allocate(20'000);
  memory.Free(a, 10'000);
  memory.Free(b, 20'000);
  CHECK(memory.Allocate(20'000) == b);
  CHECK(memory.Allocate(10'000) == a);
  CHECK(memory.Allocate(10'000) != a);
}

TEST_CASE("when all regions are made, a pool's buffers are private", "[common][shared_memory]") {
  auto memory = std::make_shared<SharedMemory>(4096, 4096);
  for (std::size_t i = 0; i < SharedMemory::kRegionsMax; ++i) REQUIRE(memory->Allocate(4096) != nullptr);
  CHECK(memory->Allocate(4096) == nullptr);
  BufferPool pool(std::size_t{1} << 16, memory);
  const BufferRef buffer = pool.Take();
  CHECK_FALSE(memory->Find({buffer->data(), buffer->size()}));
  std::memset(buffer->data(), 1, buffer->size());
  CHECK(buffer->data()[buffer->size() - 1] == std::byte{1});
}

TEST_CASE("a pool's buffers lie in the memory, and return to it with the pool", "[common][shared_memory]") {
  const auto memory = std::make_shared<SharedMemory>(1 << 20);
  BufferRef kept;
  const std::byte* address = nullptr;
  {
    BufferPool pool(1000, memory);
    kept = pool.Take();
    address = kept->data();
    CHECK(memory->Find({kept->data(), kept->size()}));
  }
  BufferPool next(1000, memory);
  CHECK(next.Take()->data() != address);  // it is still in use
  kept = {};
  CHECK(BufferPool(1000, memory).Take()->data() == address);
}

TEST_CASE("nobody who is given a region can write to it or shorten it", "[common][shared_memory]") {
  SharedMemory memory(8192);
  std::byte* const own = memory.Allocate(8192);
  const SharedMemory::Region& region = memory.region(0);
  CHECK(mmap(nullptr, region.size, PROT_READ | PROT_WRITE, MAP_SHARED, region.descriptor, 0) == MAP_FAILED);
  CHECK(ftruncate(region.descriptor, 4096) != 0);
  CHECK(write(region.descriptor, "x", 1) == -1);
  const auto mapped = MappedRegion::Map(dup(region.descriptor), region.size);
  REQUIRE(mapped.ok());
  own[5000] = std::byte{7};
  CHECK((*mapped)->data()[5000] == std::byte{7});
}

// Returns a region of two pages of which the first `pages` have memory.
int SealedMemory(std::size_t pages) {
  const int made = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  REQUIRE(ftruncate(made, 8192) == 0);
  for (std::size_t page = 0; page < pages; ++page) REQUIRE(pwrite(made, "x", 1, static_cast<off_t>(4096 * page)) == 1);
  REQUIRE(fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0);
  return made;
}

TEST_CASE("a descriptor that is no region is refused, and closed", "[common][shared_memory]") {
  SharedMemory memory(4096);
  REQUIRE(memory.Allocate(1) != nullptr);
  const int unsealed = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  REQUIRE(ftruncate(unsealed, 4096) == 0);
  int pipes[2];
  REQUIRE(pipe(pipes) == 0);
  CHECK(MappedRegion::Map(unsealed, 4096).status().code() == Code::kInvalid);
  CHECK(MappedRegion::Map(pipes[0], 4096).status().code() == Code::kInvalid);
  CHECK(MappedRegion::Map(dup(memory.region(0).descriptor), 8192).status().code() == Code::kInvalid);
  CHECK(MappedRegion::Map(dup(memory.region(0).descriptor), 0).status().code() == Code::kInvalid);
  CHECK(MappedRegion::Map(SealedMemory(1), 8192).status().code() == Code::kInvalid);  // a page is missing
  CHECK(MappedRegion::Map(SealedMemory(2), 8192).ok());
  CHECK(close(unsealed) == -1);
  CHECK(close(pipes[0]) == -1);
  close(pipes[1]);
}

}  // namespace
}  // namespace capstan
