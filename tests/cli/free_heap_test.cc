#include "cli/run/free_heap.h"

#include <unistd.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "cli/run/process.h"
#include "tests/catch.h"

namespace capstan::cli {
namespace {

constexpr std::uint64_t kMuch = FreeHeap::kKeptBytes + 1;

TEST_CASE("what was free for a minute is given back, once a minute", "[cli][heap]") {
  std::uint64_t free = kMuch;
  int given = 0;
  FreeHeap heap({[&] { return free; }, [&] { ++given; }});
  for (int i = 0; i < FreeHeap::kLooks - 1; ++i) heap.Look();
  CHECK(given == 0);
  heap.Look();
  CHECK(given == 1);
  for (int i = 0; i < FreeHeap::kLooks; ++i) heap.Look();
  CHECK(given == 2);
}

TEST_CASE("what a step takes and frees stays", "[cli][heap]") {
  std::uint64_t free = 0;
  int given = 0;
  FreeHeap heap({[&] { return free; }, [&] { ++given; }});
  for (int i = 0; i < 10 * FreeHeap::kLooks; ++i) {
    free = i % 10 == 0 ? FreeHeap::kKeptBytes : 100 * kMuch;
    heap.Look();
  }
  CHECK(given == 0);
}

std::uint64_t ResidentBytes() {
  std::uint64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

TEST_CASE("freed memory that lies between memory in use is given back to the system", "[cli][heap]") {
  constexpr std::size_t kPieces = 512, kBytes = std::size_t{1} << 20;
  PrepareProcess();
  std::vector<std::unique_ptr<char[]>> pieces;
  for (std::size_t i = 0; i < kPieces; ++i) {
    pieces.push_back(std::make_unique<char[]>(kBytes));
    std::memset(pieces.back().get(), 1, kBytes);
  }
  for (std::size_t i = 0; i < kPieces; ++i) {
    if (i % 8 != 7) pieces[i].reset();  // one in eight stays, the last of all too
  }
  const std::uint64_t before = ResidentBytes();
  FreeHeap heap;
  for (int i = 0; i < FreeHeap::kLooks; ++i) heap.Look();
  CHECK(ResidentBytes() + kPieces * kBytes / 2 < before);
}

}  // namespace
}  // namespace capstan::cli
