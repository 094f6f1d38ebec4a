// How a mesh between processes is formed, why forming it may fail, and what happens when one of its connections breaks.
#include <arpa/inet.h>
#include <sys/socket.h>

#include <atomic>
#include <filesystem>
#include <set>

#include "tests/patience.h"
#include "tests/worker/collective/groups.h"

namespace capstan::collective {
namespace {

using Catch::Matchers::Contains;
using Clock = std::chrono::steady_clock;

// A rendezvous that ranks 0 and 1 of three use. Both have given their bytes before the deadline of either can pass, so
// only rank 2 is missing.
class BothCome : public Rendezvous {
 public:
  Result<std::vector<std::string>> Exchange(int rank, std::string bytes, Deadline deadline) override {
    static_cast<void>(all_.Exchange(rank, bytes, Clock::now()));
    come_.Change([](int& come) { ++come; });
    come_.AwaitUntil(In(kPatience), [](int come) { return come == 2; });
    return all_.Exchange(rank, std::move(bytes), deadline);
  }

 private:
  InProcessRendezvous all_{3, NameOfTestRank};
  Guarded<int> come_;
};

TEST_CASE("a mesh that not all ranks come to is not formed, and says who is missing", "[collective]") {
  BothCome rendezvous;
  std::vector<Status> statuses(2);
  const Deadline deadline = In(std::chrono::milliseconds(100));
  RunThreads(2, [&](int rank) {
    statuses[static_cast<std::size_t>(rank)] =
        CreateGlooMesh({rank, 3, "127.0.0.1", NameOfTestRank}, &rendezvous, deadline).status();
  });
  CHECK(Clock::now() >= deadline);
  for (const Status& status : statuses) {
    CHECK(status.code() == Code::kTimeout);
    CHECK_THAT(status.message(), Contains("rank 2 (w-2)") && !Contains("rank 0") && !Contains("rank 1"));
  }
}

TEST_CASE("addresses of too few ranks are refused by their number", "[collective]") {
  struct Forgetful : Rendezvous {
    Result<std::vector<std::string>> Exchange(int, std::string bytes, Deadline) override {
      return std::vector<std::string>{bytes};
    }
  } rendezvous;
  const Status status = CreateGlooMesh({0, 3, "127.0.0.1", {}}, &rendezvous, In(kPatience)).status();
  CHECK(status.code() == Code::kInvalid);
  CHECK_THAT(status.message(), Contains("1 of them to 3 ranks"));
}

TEST_CASE("an address that is not of this machine is refused by name", "[collective]") {
  InProcessRendezvous rendezvous(2);
  const Status status = CreateGlooMesh({0, 2, "192.0.2.1", {}}, &rendezvous, In(kPatience)).status();
  CHECK(status.code() == Code::kUnreachable);
  CHECK_THAT(status.message(), Contains("192.0.2.1"));
  CHECK(CreateGlooMesh({2, 2, "127.0.0.1", {}}, &rendezvous, In(kPatience)).status().code() == Code::kInvalid);
}

// Returns the file descriptors of this process's TCP connections. A connection within the process has two.
std::set<int> Connections() {
  std::set<int> connections;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    sockaddr_in peer{};
    socklen_t length = sizeof peer;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0 && peer.sin_family == AF_INET) {
      connections.insert(fd);
    }
  }
  return connections;
}

std::vector<int> ConnectionsSince(const std::set<int>& before) {
  std::vector<int> ends;
  for (const int end : Connections()) {
    if (!before.contains(end)) ends.push_back(end);
  }
  return ends;
}

TEST_CASE("a message that travels for longer than a silent rank has is waited for", "[collective][long]") {
  const std::set<int> before = Connections();
  const std::chrono::milliseconds silence = std::chrono::milliseconds(1500) * testing::Patience();
  constexpr std::size_t kMany = 2u << 20;
  Groups groups(CreateMeshes("gloo", 2, kPatience, silence), {.chunk_bytes = 32u << 20});
  // A message carries half of the numbers. At this rate a message takes three times as long as `silence`.
  const auto bytes_per_second = static_cast<unsigned>(kMany / 2 * sizeof(float) * 1000 / 3 / silence.count());
  for (const int end : ConnectionsSince(before)) {
    REQUIRE(setsockopt(end, SOL_SOCKET, SO_MAX_PACING_RATE, &bytes_per_second, sizeof bytes_per_second) == 0);
  }
  const Clock::time_point begin = Clock::now();
  std::vector<std::vector<float>> data(2, std::vector<float>(kMany, 1.0F));
  groups.RunWell([&](Group& group) {
    return group.AllReduce(data[static_cast<std::size_t>(group.rank())], In(std::chrono::hours(1)));
  });
  CHECK(Clock::now() - begin > 2 * silence);  // otherwise this test compared with nothing
  for (const std::vector<float>& sum : data) CHECK(sum == std::vector<float>(kMany, 2.0F));
}

TEST_CASE("whichever connection of two ranks breaks, both hear of it, also in the middle of a message",
          "[collective][long]") {
  const std::set<int> before = Connections();
  constexpr std::size_t kMany = 4u << 20;
  for (std::size_t broken = 0;; ++broken) {
    Groups groups(CreateMeshes("gloo", 2, std::chrono::milliseconds(200)), {.chunk_bytes = 32u << 20});
    const std::vector<int> ends = ConnectionsSince(before);
    REQUIRE(ends.size() == 6);  // three connections
    if (broken == ends.size()) break;
    std::atomic<int> rounds{0};
    std::atomic<bool> over{false};
    std::vector<std::vector<float>> data(2, std::vector<float>(kMany));
    std::thread breaker([&] {
      while (rounds < 4 && !over) std::this_thread::yield();
      shutdown(ends[broken], SHUT_RDWR);
    });
    const std::vector<Status> statuses = groups.Run([&](Group& group) {
      for (;;) {
        ++rounds;
        const auto deadline = In(std::chrono::hours(1));
        CAPSTAN_RETURN_IF_ERROR(group.AllReduce(data[static_cast<std::size_t>(group.rank())], deadline));
      }
    });
    over = true;
    breaker.join();
    CAPTURE(broken, statuses[0].ToString(), statuses[1].ToString());
    CHECK(rounds >= 4);  // otherwise something else broke them
    for (const Status& status : statuses) {
      CHECK(status.code() == Code::kUnreachable);
      // The error message has Gloo's text about the connection, without the name of Gloo's source file.
      CHECK_THAT(status.message(), Contains("127.0.0.1") && !Contains(".cc:"));
    }
  }
}

}  // namespace
}  // namespace capstan::collective
