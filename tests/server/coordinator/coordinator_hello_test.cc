// Which shards a coordinator takes for those of its job.
#include "common/config/job/job_section.h"
#include "common/config/job_config.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/hello.h"
#include "common/wire/messages/reset.h"
#include "common/wire/messages/shard_orders.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_harness.h"

namespace capstan::server {
namespace {

using std::chrono::seconds;
using State = Coordinator::State;

TEST_CASE("a shard that cannot belong to the job is refused, with the reason", "[server][hello]") {
  CoordinatorHarness harness;
  harness.accept_rollback = GENERATE(false, true);  // accepting a rollback makes no difference here
  const bool collecting = GENERATE(false, true);
  if (collecting) harness.Live();
  if (!collecting) harness.Run();
  const Term term = harness.coordinator->term();
  const Generation generation = harness.coordinator->generation();
  const Coordinator::State state = harness.coordinator->state();
  const PeerId peer{4000};
  constexpr std::uint64_t kAbsurd = (std::uint64_t{1} << 48) + 1;  // one above the highest number that is accepted
  struct Bad {
    Code code;
    const char* word;
    void (*change)(Hello*);
  };
  const Bad bad[] = {
      {Code::kRefused, "--index", [](Hello* hello) { hello->shard = 2; }},
      {Code::kRefused, "--index", [](Hello* hello) { hello->shard = UINT32_MAX; }},
      {Code::kRefused, "job file", [](Hello* hello) { ++hello->config_hash; }},
      {Code::kRefused, "another job",
       [](Hello* hello) {
         hello->job = JobId{1, 3};
       }},
      {Code::kInvalid, "no job reaches", [](Hello* hello) { hello->term = Term{kAbsurd}; }},
      {Code::kInvalid, "no job reaches", [](Hello* hello) { hello->term = Term{UINT64_MAX}; }},
      {Code::kInvalid, "no job reaches", [](Hello* hello) { hello->generation = Generation{kAbsurd}; }},
      {Code::kInvalid, "no job reaches",
       [](Hello* hello) { hello->newest_retained.generation = Generation{UINT64_MAX}; }},
  };
  for (const Bad& one : bad) {
    Hello hello = harness.shards[1].hello;
    hello.incarnation = Incarnation{60};
    one.change(&hello);
    harness.Send(peer, hello);
    const std::vector<Error> errors = harness.Take<Error>(peer);
    INFO(one.word);
    REQUIRE(errors.size() == 1);
    CHECK(errors[0].code == one.code);
    CHECK(IsNamed(errors[0].message, one.word));
  }
  CHECK(harness.coordinator->term() == term);
  CHECK(harness.coordinator->generation() == generation);
  CHECK(harness.coordinator->state() == state);
}

TEST_CASE("of two processes with one index the first keeps it, and the second is refused", "[server][hello]") {
  CoordinatorHarness harness;
  harness.Run();
  harness.SendHello(1);
  Hello second = harness.shards[1].hello;
  second.incarnation = Incarnation{60};
  second.endpoint = "elsewhere";
  second.serving = false;
  second.generation = {};
  const PeerId peer{4000};
  harness.Send(peer, second);
  CHECK(harness.coordinator->generation() == Generation{1});  // the second process has no effect yet
  CHECK(harness.Take<Error>(peer).empty());
  harness.Tick(seconds(1));  // the regular Ping finds the first process alive
  CHECK(harness.TakeFromShard<Ping>(1).size() == 1);
  harness.SendHello(1);
  const std::vector<Error> errors = harness.Take<Error>(peer);
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == Code::kRefused);
  CHECK(IsNamed(errors[0].message, "server 1 is already running at shard-1"));
  CHECK(harness.coordinator->generation() == Generation{1});
  CHECK(harness.coordinator->state() == State::kRunning);
}

TEST_CASE("a life belongs to one address", "[server][hello]") {
  CoordinatorHarness harness;
  harness.Run();
  harness.SendHello(1);
  const Hello copied = harness.shards[1].hello;
  harness.Send(CoordinatorHarness::kStranger, copied);
  harness.Pass(seconds(5));
  harness.Send(CoordinatorHarness::kStranger, copied);
  harness.Forget();
  harness.Pass(seconds(1));
  CHECK(harness.TakeFromShard<Ping>(1).size() == 1);
  CHECK(harness.Take<Ping>(CoordinatorHarness::kStranger).empty());
  CHECK(harness.coordinator->generation() == Generation{1});
}

TEST_CASE("a process that takes a silent one's index is believed after a while", "[server][hello]") {
  CoordinatorHarness harness;
  harness.Run();
  harness.SendHello(1);
  Hello second = harness.shards[1].hello;
  second.incarnation = Incarnation{60};
  second.endpoint = "elsewhere";
  second.serving = false;
  second.generation = {};
  const PeerId peer{4000};
  harness.Send(peer, second);
  harness.Pass(seconds(4));
  CHECK(harness.coordinator->generation() == Generation{1});
  harness.Send(peer, second);
  CHECK(harness.coordinator->generation() == Generation{2});
  CHECK(harness.Take<Reset>(peer).at(0).incarnation == Incarnation{60});
}

TEST_CASE("a late Hello of an earlier life is no new life", "[server][hello]") {
  CoordinatorHarness harness;
  harness.Run();
  Hello late = harness.shards[1].hello;
  late.incarnation = Incarnation{40};
  harness.Send(harness.shards[1].peer, late);
  harness.Pass(seconds(4));
  harness.Send(harness.shards[1].peer, late);
  harness.Send(PeerId{4000}, late);
  CHECK(harness.coordinator->generation() == Generation{1});
  CHECK(harness.coordinator->shards().at(1).incarnation == Incarnation{51});
}

TEST_CASE("a shard whose clock is behind that of the life before is told so, and people are", "[server][hello]") {
  CoordinatorHarness harness;
  harness.Run();
  harness.SendHello(1);
  Hello back = harness.shards[1].hello;  // its disk is lost, and its machine's clock is behind
  back.incarnation = Incarnation{40};
  back.endpoint = "elsewhere";
  back.serving = false;
  back.generation = {};
  const PeerId peer{4000};
  harness.Send(peer, back);
  CHECK(harness.Take<Error>(peer).empty());  // it may be a late message of an earlier incarnation
  harness.Pass(seconds(4));
  harness.Send(peer, back);
  const std::vector<Error> errors = harness.Take<Error>(peer);
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == Code::kRefused);
  CHECK(errors[0].incarnation == Incarnation{40});
  CHECK(IsNamed(errors[0].message, "server 1 at elsewhere"));
  CHECK(IsNamed(errors[0].message, "clock"));
  CHECK(IsNamed(harness.Notices(), errors[0].message));
  CHECK(harness.coordinator->generation() == Generation{1});
}

}  // namespace
}  // namespace capstan::server
