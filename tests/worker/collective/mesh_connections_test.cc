// What happens when a connection of a mesh between processes breaks, or is slow.
#include <sys/socket.h>

#include <atomic>

#include "tests/patience.h"
#include "tests/worker/collective/connections.h"
#include "tests/worker/collective/groups.h"

namespace capstan::collective {
namespace {

using Catch::Matchers::Contains;

// A kind of mesh between processes.
std::string AnyKind() { return GENERATE(from_range(std::vector(kKinds.begin() + 1, kKinds.end()))); }

TEST_CASE("a message that travels for longer than a silent rank has is waited for", "[collective][long]") {
  const std::string kind = AnyKind();
  const std::set<int> before = Connections();
  const std::chrono::milliseconds silence = std::chrono::milliseconds(1500) * testing::Patience();
  constexpr std::size_t kMany = 2u << 20;
  Groups groups(CreateMeshes(kind, 2, kPatience, silence), {.chunk_bytes = 32u << 20});
  // A message carries half of the numbers. At this rate a message takes three times as long as `silence`.
  const auto bytes_per_second = static_cast<unsigned>(kMany / 2 * sizeof(float) * 1000 / 3 / silence.count());
  for (const int end : ConnectionsSince(before)) {
    REQUIRE(setsockopt(end, SOL_SOCKET, SO_MAX_PACING_RATE, &bytes_per_second, sizeof bytes_per_second) == 0);
  }
  std::vector<std::vector<float>> data(2, std::vector<float>(kMany, 1.0F));
  groups.RunWell([&](Group& group) {
    return group.AllReduce(data[static_cast<std::size_t>(group.rank())], In(std::chrono::hours(1)));
  });
  for (const std::vector<float>& sum : data) CHECK(sum == std::vector<float>(kMany, 2.0F));
}

TEST_CASE("whichever connection of two ranks breaks, both hear of it, also in the middle of a message",
          "[collective][long]") {
  const std::string kind = AnyKind();
  const std::size_t connections = kind == "gloo" ? 3 : 2;
  const std::set<int> before = Connections();
  constexpr std::size_t kMany = 4u << 20;
  for (std::size_t broken = 0;; ++broken) {
    Groups groups(CreateMeshes(kind, 2, std::chrono::milliseconds(200)), {.chunk_bytes = 32u << 20});
    const std::vector<int> ends = ConnectionsSince(before);
    REQUIRE(ends.size() == 2 * connections);
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
      CHECK_THAT(status.message(), Contains("the connection broke to rank") && !Contains(".cc:"));
      if (kind == "gloo") CHECK_THAT(status.message(), Contains("127.0.0.1"));
    }
  }
}

TEST_CASE("a rank that has left after its last call is not named when another one is lost", "[collective]") {
  const std::string kind = AnyKind();
  std::vector<std::shared_ptr<Mesh>> meshes = CreateMeshes(kind, 3, std::chrono::seconds(1));
  meshes[2].reset();
  std::vector<std::byte> bytes(8);
  const std::unique_ptr<Transfer> transfer = meshes[0]->CreateTransfer();
  REQUIRE(transfer->Receive(1, 1, bytes).ok());
  meshes[1].reset();
  const Status status = transfer->Wait();
  INFO(kind << ": " << status.ToString());
  CHECK(status.code() == Code::kUnreachable);
  CHECK_THAT(status.message(), Contains("the connection broke to rank 1 (w-1);"));
}

}  // namespace
}  // namespace capstan::collective
