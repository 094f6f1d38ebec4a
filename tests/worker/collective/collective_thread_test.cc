#include "worker/collective/collective_thread.h"

#include <future>

#include "tests/worker/collective/groups.h"

namespace capstan::collective {
namespace {

using Catch::Matchers::Contains;
using std::chrono::milliseconds;

std::vector<std::unique_ptr<CollectiveThread>> CreateThreads(int size, std::size_t waiting_max,
                                                             const GroupOptions& options = {}) {
  std::vector<std::unique_ptr<CollectiveThread>> threads;
  for (auto& mesh : CreateInProcessMeshes(size, NameOfTestRank)) {
    threads.push_back(std::make_unique<CollectiveThread>(CreateGroup(std::move(mesh), options), waiting_max));
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
  CHECK(early.code() == Code::kBusy);
  CHECK_THAT(early.message(), Contains("collective number 1"));
  REQUIRE(threads[1]->SubmitAllReduce(second, In(kPatience)).ok());
  for (const auto& thread : threads) CHECK(thread->Wait(1, In(kPatience)).ok());
  CHECK(first == std::vector<float>(4, 3.0F));
}

TEST_CASE("a failed array fails all later ones with the first failure, submitted before it or after", "[collective]") {
  const auto threads = CreateThreads(2, 8);
  std::vector<float> good(8, 1.0F), theirs(8, 1.0F), data(8, 1.0F), other(8, 1.0F);
  REQUIRE(threads[1]->SubmitAllReduce(theirs, In(kPatience)).ok());
  std::promise<void> all_are_submitted;
  REQUIRE(threads[0]->Submit([&](Group&) { return all_are_submitted.get_future().wait(), Status(); }).ok());
  REQUIRE(threads[0]->SubmitAllReduce(good, In(kPatience)).ok());
  REQUIRE(threads[0]->SubmitAllReduce(data, In(milliseconds(50))).ok());
  REQUIRE(threads[0]->SubmitAllReduce(other, In(kPatience)).ok());
  all_are_submitted.set_value();
  const Status first = threads[0]->Wait(3, In(kPatience));
  CHECK_THAT(first.message(), Contains("rank 1 (w-1)"));
  CHECK(threads[0]->Wait(4, In(kPatience)).message() == first.message());
  CHECK(threads[0]->Wait(2, In(kPatience)).ok());
  CHECK(threads[0]->SubmitAllReduce(other, In(kPatience)).status().message() == first.message());
}

TEST_CASE("a few floats are added exactly between arrays that travel in 16 bits", "[collective]") {
  const auto threads = CreateThreads(3, 8, {.wire = Encoding::kBf16});
  const float fine = 1.0F + 0x1p-20F;  // 16 bits cannot hold it
  std::vector<std::vector<float>> array(3, std::vector<float>(100, fine)), few = array;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    REQUIRE(threads[rank]->SubmitAllReduce(array[rank], In(kPatience)).ok());
    few[rank] = {fine, static_cast<float>(rank)};
    REQUIRE(threads[rank]->SubmitExactAllReduce(few[rank], In(kPatience)).ok());
  }
  for (std::size_t rank = 0; rank < 3; ++rank) {
    REQUIRE(threads[rank]->Wait(2, In(kPatience)).ok());
    CHECK(array[rank] == std::vector<float>(100, 3.0F));
    CHECK(few[rank] == std::vector<float>{3.0F * fine, 3.0F});
  }
}

TEST_CASE("work on the group is done in its place, and its failure is that of what follows", "[collective]") {
  const auto threads = CreateThreads(2, 8);
  std::vector<std::vector<float>> data(2, std::vector<float>(4, 1.0F)), after = data;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    REQUIRE(threads[rank]->SubmitAllReduce(data[rank], In(kPatience)).ok());
    const auto twice = [&one = data[rank]](Group& group) -> Status {
      for (float& value : one) value += static_cast<float>(group.rank());
      return group.AllReduce(one, In(kPatience));
    };
    REQUIRE(threads[rank]->Submit(twice).ok());
    REQUIRE(threads[rank]->Submit([](Group&) { return Invalid("this one cannot be"); }).ok());
    static_cast<void>(threads[rank]->SubmitAllReduce(after[rank], In(kPatience)));  // perhaps refused by then
  }
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(threads[rank]->Wait(2, In(kPatience)).ok());
    CHECK(data[rank] == std::vector<float>(4, 5.0F));
    CHECK(threads[rank]->Wait(3, In(kPatience)).message() == "this one cannot be");
    CHECK(after[rank] == std::vector<float>(4, 1.0F));
  }
}

TEST_CASE("the queue is bounded, and what nobody waits for is aborted at the end", "[collective]") {
  auto threads = CreateThreads(2, 1);
  std::vector<float> data(8);
  Status refused;
  for (int i = 0; i < 3 && refused.ok(); ++i) {  // one may already be under way
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
