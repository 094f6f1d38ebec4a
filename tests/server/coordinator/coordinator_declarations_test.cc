// What workers declare of a job: how many must agree before it is the job's, and what becomes of the others.
#include "common/config/job/cluster_section.h"
#include "common/config/job/limits_section.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/reset.h"
#include "common/wire/messages/view.h"
#include "server/coordinator/declarations.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_harness.h"

namespace capstan::server {
namespace {

using std::chrono::seconds;
using State = Coordinator::State;

// The Join of a worker that declares one more tensor than the others.
Join Other(const CoordinatorHarness& harness, const std::string& name, std::int64_t size = 3) {
  Join join = harness.MakeJoin(name);
  join.catalog.push_back({"c", {size}, {InitKind::kZeros, 0.0F}, true});
  return join;
}

TEST_CASE("a stranger that comes first does not define a job of several workers", "[server][join]") {
  CoordinatorHarness harness(2, 2);
  harness.Live();
  harness.ShardsEchoTerm();
  const Join stranger = Other(harness, "x");
  harness.Send(CoordinatorHarness::PeerOf(stranger), stranger);
  const Heartbeat beat = harness.MakeHeartbeat(stranger);
  harness.Joins("w0");
  CHECK(harness.Logged<CatalogRecord>().empty());
  CHECK(harness.coordinator->state() == State::kCollecting);
  CHECK(IsNamed(harness.Notices(), "\"w0\" does not agree with \"x\""));
  CHECK(IsNamed(harness.coordinator->WaitingFor(harness.now), "workers that agree"));
  harness.Joins("w1");  // two workers of two agree
  REQUIRE(harness.Logged<CatalogRecord>().size() == 1);
  CHECK(harness.Logged<CatalogRecord>()[0].tensors == CoordinatorHarness::Tensors());
  CHECK(harness.Count<Reset>() > 0);  // the job begins without a wait
  CHECK(harness.coordinator->worker_count() == 2);
  harness.Send(CoordinatorHarness::PeerOf(stranger), beat);
  CHECK(harness.Take<Error>(CoordinatorHarness::PeerOf(stranger)).at(0).code == Code::kStale);
  harness.Send(CoordinatorHarness::PeerOf(stranger), stranger);
  const Error error = harness.Take<Error>(CoordinatorHarness::PeerOf(stranger)).at(0);
  CHECK(error.code == Code::kRefused);
  CHECK(IsNamed(error.message, "worker \"x\": this worker declares 3 tensors, the job has 2"));
}

TEST_CASE("one process is one witness, whatever names it takes", "[server][join]") {
  CoordinatorHarness harness(2, 3);
  harness.Live();
  const PeerId peer{4000};
  for (const char* name : {"x", "y", "z", "u"}) harness.Send(peer, Other(harness, name));
  CHECK(harness.coordinator->catalog() == nullptr);
}

TEST_CASE("after half of limits.join as many as min_workers decide what the job is", "[server][join]") {
  CoordinatorHarness harness(2, 4);
  harness.config.cluster.min_workers = 2;
  harness.Live();
  harness.ShardsEchoTerm();
  const Join stranger = Other(harness, "x");
  harness.Send(CoordinatorHarness::PeerOf(stranger), stranger);
  const Join w0 = harness.Joins("w0"), w1 = harness.Joins("w1");
  harness.Pass(seconds(29), {stranger, w0, w1});
  CHECK(harness.coordinator->catalog() == nullptr);
  harness.Pass(seconds(2), {stranger, w0, w1});
  REQUIRE(harness.Logged<CatalogRecord>().size() == 1);
  CHECK(harness.Logged<CatalogRecord>()[0].tensors == CoordinatorHarness::Tensors());
  CHECK(harness.coordinator->state() == State::kResetting);
}

TEST_CASE("a job whose workers do not agree does not begin, and the error says who and why", "[server][join]") {
  CoordinatorHarness harness;
  harness.Live();
  harness.ShardsEchoTerm();
  const Join w0 = harness.Joins("w0"), w1 = Other(harness, "w1");
  harness.Send(CoordinatorHarness::PeerOf(w1), w1);
  harness.Pass(seconds(61), {w0, w1});
  REQUIRE(harness.coordinator->state() == State::kFailed);
  CHECK(IsNamed(harness.coordinator->failure().message(), "\"w1\" does not agree with \"w0\""));
  CHECK(IsNamed(harness.coordinator->failure().message(), "declares 3 tensors"));
}

TEST_CASE("few different declarations are kept, and those of single workers give way", "[server][join]") {
  CoordinatorHarness harness(2, 2);
  harness.Live();
  std::vector<Join> strangers;
  for (std::size_t i = 0; i < kDifferentMax; ++i) {
    strangers.push_back(Other(harness, std::string(1, static_cast<char>('a' + i)), static_cast<std::int64_t>(i + 1)));
    harness.Send(CoordinatorHarness::PeerOf(strangers.back()), strangers.back());
  }
  const Join w0 = harness.MakeJoin("w0");
  harness.Send(CoordinatorHarness::PeerOf(w0), w0);
  CHECK(harness.Take<Error>(CoordinatorHarness::PeerOf(w0)).at(0).code == Code::kBusy);
  CHECK(harness.coordinator->worker_count() == kDifferentMax);
  harness.Pass(seconds(11), strangers);
  harness.Joins("w0");
  harness.Joins("w1");
  REQUIRE(harness.Logged<CatalogRecord>().size() == 1);
  CHECK(harness.Logged<CatalogRecord>()[0].tensors == CoordinatorHarness::Tensors());
}

TEST_CASE("a catalog that cannot be is refused at once", "[server][join]") {
  CoordinatorHarness harness(2, 1);
  harness.Live();
  Join join = harness.MakeJoin("w0");
  join.catalog[0].shape = {0};
  harness.Send(CoordinatorHarness::PeerOf(join), join);
  const std::vector<Error> errors = harness.Take<Error>(CoordinatorHarness::PeerOf(join));
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == Code::kRefused);
  CHECK(IsNamed(errors[0].message, "\"a\""));
  CHECK(harness.coordinator->catalog() == nullptr);
  CHECK(harness.Logged<CatalogRecord>().empty());
  harness.Joins("w0");
  CHECK(harness.coordinator->catalog() != nullptr);
  REQUIRE(harness.Logged<CatalogRecord>().size() == 1);
  CHECK(harness.Logged<CatalogRecord>()[0].numeric_class == "class");
  CHECK(harness.Logged<SessionRecord>().size() == 1);
}

TEST_CASE("a worker that does not fit the job is refused, with both sides named", "[server][join]") {
  CoordinatorHarness harness;
  harness.Live();
  harness.Joins("w0");
  harness.Joins("w1");
  struct Bad {
    const char* words[2];
    void (*change)(Join*);
  };
  const Bad bad[] = {
      {{"b f32[3]", "b f32[2, 2]"}, [](Join* join) { join->catalog[1].shape = {3}; }},
      {{"1 tensors", "b f32[2, 2]"}, [](Join* join) { join->catalog.pop_back(); }},
      {{"other class", "\"class\""}, [](Join* join) { join->numeric_class = "other class"; }},
      {{"77", "(probe 3)"}, [](Join* join) { join->numeric_fingerprint = 77; }},
      {{"88", "(4)"}, [](Join* join) { join->data_fingerprint = 88; }},
      {{"another job", "--coordinator"},
       [](Join* join) {
         join->job = JobId{1, 3};
       }},
      {{"name", "128"}, [](Join* join) { join->worker.clear(); }},
      {{"name", "128"}, [](Join* join) { join->worker.assign(129, 'x'); }},
  };
  const PeerId peer{4000};
  for (const Bad& one : bad) {
    Join join = harness.MakeJoin("w2", 2);
    one.change(&join);
    harness.Send(peer, join);
    const std::vector<Error> errors = harness.Take<Error>(peer);
    REQUIRE(errors.size() == 1);
    INFO(errors[0].message);
    CHECK(errors[0].code == Code::kRefused);
    for (const char* word : one.words) CHECK(IsNamed(errors[0].message, word));
  }
  CHECK(harness.metrics->joins_refused.value() == std::size(bad));
  CHECK(harness.coordinator->worker_count() == 2);
  CHECK(harness.Logged<SessionRecord>().size() == 1);
  harness.Send(peer, harness.MakeJoin("w2", 2));
  CHECK(harness.coordinator->worker_count() == 3);
}

}  // namespace
}  // namespace capstan::server
