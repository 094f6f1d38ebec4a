#include "worker/collective/collective_thread.h"

#include "tests/worker_collective/groups.h"

namespace capstan::collective {
namespace {

using Catch::Matchers::Contains;
using std::chrono::milliseconds;

std::vector<std::unique_ptr<CollectiveThread>> CreateThreads(int size, std::size_t waiting_max) {
  std::vector<std::unique_ptr<CollectiveThread>> threads;
  for (auto& mesh : CreateInProcessMeshes(size, NameOfTestRank)) {
    threads.push_back(std::make_unique<CollectiveThread>(CreateGroup(std::move(mesh)), waiting_max));
  }
  return threads;
}

TEST_CASE("arrays are reduced in order while their owner goes on, and waiting for one is waiting for those before it",
          "[collective]") {
  const auto threads = CreateThreads(3, 8);
  std::vector<std::vector<float>> data(3 * 5, std::vector<float>(100, 1.0F));
  for (std::size_t bucket = 0; bucket < 5; ++bucket) {
    for (std::size_t rank = 0; rank < 3; ++rank) {
      const auto ticket = threads[rank]->SubmitAllReduce(data[rank * 5 + bucket], In(kPatience));
      REQUIRE(ticket.ok());
      CHECK(*ticket == bucket + 1);
    }
  }
  for (const auto& thread : threads) CHECK(thread->Wait(5, In(kPatience)).ok());
  for (const auto& one : data) CHECK(one == std::vector<float>(100, 3.0F));
}

TEST_CASE("a wait that ends before the array is done is told so, and the array still gets done", "[collective]") {
  const auto threads = CreateThreads(2, 8);
  std::vector<float> first(4, 1.0F), second(4, 2.0F);
  REQUIRE(threads[0]->SubmitAllReduce(first, In(kPatience)).ok());
  const Status early = threads[0]->Wait(1, In(milliseconds(20)));
  CHECK(early.code() == Code::kTimeout);
  CHECK_THAT(early.message(), Contains("array number 1"));
  REQUIRE(threads[1]->SubmitAllReduce(second, In(kPatience)).ok());
  for (const auto& thread : threads) CHECK(thread->Wait(1, In(kPatience)).ok());
  CHECK(first == std::vector<float>(4, 3.0F));
}

TEST_CASE("a failed array fails all later ones with the first failure, submitted before it or after", "[collective]") {
  const auto threads = CreateThreads(2, 8);
  std::vector<float> good(8, 1.0F), theirs(8, 1.0F), data(8, 1.0F), other(8, 1.0F);
  REQUIRE(threads[1]->SubmitAllReduce(theirs, In(kPatience)).ok());
  REQUIRE(threads[0]->SubmitAllReduce(good, In(kPatience)).ok());
  REQUIRE(threads[0]->SubmitAllReduce(data, In(milliseconds(50))).ok());
  REQUIRE(threads[0]->SubmitAllReduce(other, In(kPatience)).ok());
  const Status first = threads[0]->Wait(2, In(kPatience));
  CHECK_THAT(first.message(), Contains("rank 1 (w-1)"));
  CHECK(threads[0]->Wait(3, In(kPatience)).message() == first.message());
  CHECK(threads[0]->Wait(1, In(kPatience)).ok());
  CHECK(threads[0]->SubmitAllReduce(other, In(kPatience)).status().message() == first.message());
}

TEST_CASE("the queue is bounded, and what nobody waits for is aborted at the end", "[collective]") {
  auto threads = CreateThreads(2, 1);
  std::vector<float> data(8);
  Status refused;
  for (int i = 0; i < 3 && refused.ok(); ++i) {  // one may be under way already
    refused = threads[0]->SubmitAllReduce(data, In(kPatience)).status();
  }
  CHECK(refused.code() == Code::kBusy);
  threads[0].reset();
  std::vector<float> late(8);
  CHECK_THAT(threads[1]->SubmitAllReduce(late, In(kPatience)).ok() ? threads[1]->Wait(1, In(kPatience)).message() : "",
             Contains("aborted by rank 0"));
}

}  // namespace
}  // namespace capstan::collective
