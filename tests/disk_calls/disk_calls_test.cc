#include "tests/disk_calls/disk_calls.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/temp_folder.h"

namespace capstan::testing {
namespace {

TEST_CASE("a file that open() cuts to nothing is not durable until it is synced", "[disk_calls]") {
  const TempFolder folder;
  folder.Write("log", "text");
  const std::string path = folder.path("log");
  DiskCalls calls(folder.path());
  const int flags = GENERATE(O_WRONLY | O_TRUNC, O_WRONLY | O_TRUNC | O_CREAT);
  const int fd = open(path.c_str(), flags | O_CLOEXEC, 0644);
  REQUIRE(fd >= 0);
  CHECK(calls.NotDurable() == std::vector<std::string>{path + " was truncated, and not synced"});
  REQUIRE(fsync(fd) == 0);
  CHECK(calls.NotDurable().empty());
  close(fd);
}

TEST_CASE("the disk calls of several threads are all recorded", "[disk_calls]") {
  constexpr std::size_t kThreads = 4, kWrites = 5000;
  const TempFolder folder;
  DiskCalls calls(folder.path());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([path = folder.path(std::to_string(i))] {
      const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
      for (std::size_t k = 0; k < kWrites; ++k) (void)!pwrite(fd, "x", 1, 0);
      close(fd);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(calls.calls().size() == kThreads * (1 + kWrites));
}

}  // namespace
}  // namespace capstan::testing
