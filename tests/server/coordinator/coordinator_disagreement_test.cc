// Two workers that contradict each other: one of them is set aside, and the job goes on.
#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/wire/messages/disagreement.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/prepared.h"
#include "common/wire/messages/reset.h"
#include "common/wire/messages/view.h"
#include "tests/catch.h"
#include "tests/server/coordinator/coordinator_harness.h"

namespace capstan::server {
namespace {

using Catch::Matchers::Contains;
using State = Coordinator::State;
using Slots = std::vector<SlotIndex>;

class DisagreementHarness : public CoordinatorHarness {
 public:
  // A running job of one shard, in which "w0" has joined before "w1", and that before "w2".
  DisagreementHarness() : CoordinatorHarness(1, 3) {
    config.job.slots = config.job.global_batch = 3;
    Live();
    ShardsEchoTerm();
    for (const char* name : {"w0", "w1", "w2"}) joins.push_back(Joins(name));
    AnswerReset(0);
    for (const Join& join : joins) sessions.push_back(ViewOf(join).session);
    Forget();
  }
  void Disagree(SessionId first, SessionId second, std::uint64_t step = 0) {
    Send(shards[0].peer, MakeDisagreement(first, second, step));
  }
  Disagreement MakeDisagreement(SessionId first, SessionId second, std::uint64_t step = 0) const {
    return {0,      shards[0].hello.incarnation, coordinator->generation(), Step{step}, first,
            second, "step 0: about slots"};
  }
  // Returns the text with which a worker is refused; empty if it is not.
  std::string RefusalOf(std::size_t worker) {
    const std::vector<Error> errors = Take<Error>(PeerOf(joins[worker]));
    return errors.empty() || errors[0].code != Code::kRefused ? "" : errors[0].message;
  }

  std::vector<Join> joins;
  std::vector<SessionId> sessions;
};

TEST_CASE("the later of two workers that disagree is set aside, also if its push reached the shard first",
          "[server][disagreement]") {
  for (bool later_was_first : {false, true}) {
    DisagreementHarness harness;
    harness.Disagree(harness.sessions[later_was_first ? 1 : 0], harness.sessions[later_was_first ? 0 : 1]);
    CHECK_THAT(harness.RefusalOf(1),
               Contains("this worker is set aside: it contradicts \"w0\", which joined before it: "
                        "step 0: about slots"));
    CHECK(harness.RefusalOf(0).empty());
    CHECK_THAT(harness.Notices(), Contains("\"w1\" is set aside, and the job goes on without it"));
    CHECK(harness.coordinator->worker_count() == 2);
    CHECK(harness.coordinator->failure().ok());
    CHECK_THAT(harness.coordinator->StatusJson(harness.now), Contains("\"worker\":\"w1\",\"why\""));
  }
}

TEST_CASE("the slots of a worker that is set aside move", "[server][disagreement]") {
  DisagreementHarness harness;
  harness.Disagree(harness.sessions[0], harness.sessions[2]);
  CHECK(harness.ViewOf(harness.joins[0]).slots == Slots{0, 1});
  CHECK(harness.coordinator->state() == State::kRunning);
}

TEST_CASE("if the word of the worker that is set aside counts in the step, the step is done again",
          "[server][disagreement]") {
  DisagreementHarness harness;
  harness.Disagree(harness.sessions[2], harness.sessions[0]);
  CHECK(harness.coordinator->state() == State::kResetting);
  CHECK(harness.coordinator->generation() == Generation{2});
  harness.Tick(std::chrono::milliseconds(200));
  CHECK_FALSE(harness.TakeFromShard<Reset>(0).empty());
  harness.AnswerReset(0);
  CHECK(harness.coordinator->state() == State::kRunning);
  CHECK(harness.coordinator->worker_count() == 2);
}

TEST_CASE("if it counts in a step that is over, the job only goes on", "[server][disagreement]") {
  DisagreementHarness harness;
  harness.DoStep(0);
  harness.Disagree(harness.sessions[2], harness.sessions[0], 0);
  CHECK(harness.coordinator->state() == State::kRunning);
  CHECK(harness.coordinator->worker_count() == 2);
}

TEST_CASE("if the word of a worker that has left counts in the step, the step is done again, and nobody is set aside",
          "[server][disagreement]") {
  DisagreementHarness harness;
  const Leave leave = harness.MakeLeave(harness.joins[2]);
  harness.Send(CoordinatorHarness::PeerOf(harness.joins[2]), Leave{harness.sessions[2], leave.nonce, "test"});
  harness.Disagree(harness.sessions[2], harness.sessions[0]);
  CHECK(harness.coordinator->generation() == Generation{2});
  CHECK(harness.coordinator->worker_count() == 2);
  CHECK(harness.RefusalOf(0).empty());
}

TEST_CASE("a worker that contradicts itself is set aside", "[server][disagreement]") {
  DisagreementHarness harness;
  harness.Disagree(harness.sessions[0], harness.sessions[0]);
  CHECK_THAT(harness.RefusalOf(0), Contains("it contradicts itself"));
  CHECK(harness.coordinator->worker_count() == 2);
}

TEST_CASE("where several sessions together are contradicted, nobody is set aside", "[server][disagreement]") {
  DisagreementHarness harness;
  harness.Disagree({}, harness.sessions[1]);
  CHECK(harness.coordinator->worker_count() == 3);
  CHECK(harness.coordinator->state() == State::kRunning);
}

TEST_CASE("a worker that is set aside does not come back, nor does another process of its name",
          "[server][disagreement]") {
  DisagreementHarness harness;
  harness.Disagree(harness.sessions[0], harness.sessions[1]);
  harness.Forget();
  Heartbeat beat;  // the first refusal may have been lost
  beat.session = harness.sessions[1];
  beat.nonce = harness.joins[1].nonce;
  const PeerId peer = CoordinatorHarness::PeerOf(harness.joins[1]);
  harness.Send(peer, beat);
  CHECK(harness.Take<Error>(peer).at(0).code == Code::kStale);  // then it joins again
  harness.Send(peer, harness.joins[1]);
  CHECK_THAT(harness.RefusalOf(1), Contains("this worker is set aside") && Contains("under another name"));
  harness.Joins("w1", 2);
  CHECK(harness.coordinator->worker_count() == 2);
  harness.Joins("w3");
  CHECK(harness.coordinator->worker_count() == 3);
}

TEST_CASE("if two workers contradict one, the job ends and names them all", "[server][disagreement]") {
  DisagreementHarness harness;
  harness.Disagree(harness.sessions[0], harness.sessions[1]);
  CHECK(harness.coordinator->failure().ok());
  harness.Disagree(harness.sessions[2], harness.sessions[0]);  // whoever came first at the shard
  CHECK_THAT(harness.coordinator->failure().message(),
             Contains("\"w1\" and \"w2\" both contradict \"w0\": step 0: about slots"));
}

TEST_CASE("one key that contradicts under two names is one worker", "[server][disagreement]") {
  SetAside aside;
  PublicKey key;
  key.bytes[0] = 7;
  aside.Add({"w1", "w0", "why", key});
  Worker again;
  again.name = "w2";
  again.principal.key = key;
  CHECK(aside.FindAnother(again, "w0") == nullptr);
  again.principal.key->bytes[0] = 8;
  REQUIRE(aside.FindAnother(again, "w0") != nullptr);
  CHECK(*aside.FindAnother(again, "w0") == "w1");
  CHECK(aside.FindAnother(again, "w3") == nullptr);
}

TEST_CASE("a job goes back for contradictions a limited number of times", "[server][disagreement]") {
  DisagreementHarness harness;
  for (std::uint32_t i = 0; i < SetAside::kGivenUpMax; ++i) {
    harness.Disagree(SessionId{99}, harness.sessions[0]);  // of a worker that has left
    CHECK(harness.coordinator->failure().ok());
    harness.Tick(std::chrono::milliseconds(200));
    harness.AnswerReset(0);
    REQUIRE(harness.coordinator->state() == State::kRunning);
  }
  harness.Disagree(SessionId{99}, harness.sessions[0]);
  CHECK_THAT(harness.coordinator->failure().message(), Contains("again and again, and the job went back 16 times"));
}

TEST_CASE("where several sessions together were contradicted, a step that cannot be right is done again",
          "[server][disagreement]") {
  DisagreementHarness harness;
  harness.Disagree({}, harness.sessions[1]);
  Prepared prepared = harness.MakePrepared(0, 0);
  prepared.report.block_samples[1] += 7;
  harness.Send(harness.shards[0].peer, prepared);
  CHECK(harness.coordinator->failure().ok());
  CHECK(harness.coordinator->generation() == Generation{2});
}

TEST_CASE("a verdict that would stop the job goes back instead, if the step may have what was set aside",
          "[server][disagreement]") {
  DisagreementHarness harness;
  harness.Disagree(harness.sessions[0], harness.sessions[1]);
  Prepared prepared = harness.MakePrepared(0, 0);
  prepared.report.block_samples[1] += 7;  // another block has the word of the worker that was set aside
  harness.Send(harness.shards[0].peer, prepared);
  CHECK(harness.coordinator->failure().ok());
  CHECK(harness.coordinator->generation() == Generation{2});
  harness.Tick(std::chrono::milliseconds(200));
  harness.AnswerReset(0);
  prepared.generation = Generation{2};
  harness.Send(harness.shards[0].peer, prepared);  // the workers that are left disagree, too
  CHECK_THAT(harness.coordinator->failure().message(), Contains("some worker disagrees about the data"));
}

TEST_CASE("only a shard of the running generation is believed", "[server][disagreement]") {
  DisagreementHarness harness;
  Disagreement disagreement = harness.MakeDisagreement(harness.sessions[0], harness.sessions[1]);
  harness.Send(CoordinatorHarness::kStranger, disagreement);
  disagreement.generation = Generation{7};
  harness.Send(harness.shards[0].peer, disagreement);
  CHECK(harness.coordinator->worker_count() == 3);
}

TEST_CASE("the newest workers that were set aside are remembered", "[server][disagreement]") {
  SetAside aside;
  for (std::size_t i = 0; i <= SetAside::kMax; ++i)
    aside.Add({std::to_string(i), "w", "because of " + std::to_string(i)});
  CHECK(aside.cases().size() == SetAside::kMax);
  CHECK(aside.Find("0") == nullptr);
  REQUIRE(aside.Find("1") != nullptr);
  CHECK(*aside.Find("1") == "because of 1");
}

}  // namespace
}  // namespace capstan::server
