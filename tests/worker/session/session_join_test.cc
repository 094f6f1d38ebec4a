// How a session joins a job, follows it, and ends.
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/limits.h"
#include "common/wire/messages/membership.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/view.h"
#include "tests/catch.h"
#include "tests/worker/session/session_harness.h"

namespace capstan::session {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("a shard that cannot be connected to ends the session, with its name and the cause", "[client]") {
  SessionHarness harness;
  harness.unreachable = "shard-1";
  harness.Declare();
  harness.FromCoordinator(harness.MakeView({0}));
  const std::vector<Session::Failed> failed = harness.Events<Session::Failed>();
  REQUIRE(failed.size() == 1);
  CHECK(failed[0].status.code() == Code::kUnreachable);
  CHECK(failed[0].status.message() == "shard 1 at shard-1 cannot be connected to: no socket can be made");
  CHECK(harness.Take<Leave>(kCoordinator).size() == 1);
}

TEST_CASE("a view without addresses moves slots in the generation that the session is in, and begins no other",
          "[client]") {
  SessionHarness harness;
  harness.Join({0});
  const std::size_t connected = harness.connected.size();
  View view = harness.MakeView({1});
  view.shards.clear();
  harness.FromCoordinator(view);
  harness.Ready();
  harness.NothingCovered(0);
  harness.SendAllWeights(0);
  const std::vector<Session::WorkReady> ready = harness.Events<Session::WorkReady>();
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].work.slots == std::vector<SlotIndex>{1});
  View next = harness.MakeView({1}, 2);
  const std::vector<ShardAddress> shards = std::exchange(next.shards, {});
  harness.FromCoordinator(next);
  CHECK(harness.session->generation() == Generation{1});
  next.shards = shards;
  harness.FromCoordinator(next);
  CHECK(harness.session->generation() == Generation{2});
  CHECK(harness.connected.size() == 2 * connected);
}

TEST_CASE("a session asks for the job file until it comes, then declares what it brings", "[client][join]") {
  SessionHarness harness;
  harness.Tick();
  CHECK(harness.Take<capstan::Join>(kCoordinator).at(0).catalog.empty());
  harness.Tick(milliseconds(50));
  CHECK(harness.Take<capstan::Join>(kCoordinator).empty());
  harness.Tick(milliseconds(100));
  CHECK(harness.Take<capstan::Join>(kCoordinator).size() == 1);
  View view;
  view.job = JobId{1, 2};
  view.job_file = "text";
  harness.FromCoordinator(view);
  const Session::JobFile file = harness.Events<Session::JobFile>().at(0);
  CHECK(file.text == "text");
  CHECK(file.job == JobId{1, 2});
  harness.Declare();
  const capstan::Join join = harness.Take<capstan::Join>(kCoordinator).at(0);
  CHECK(join.job == JobId{1, 2});
  CHECK(join.worker == "w");
  CHECK(join.nonce == 5);
  CHECK(join.numeric_class == "class");
  CHECK(join.catalog.size() == 4);
  harness.Tick(seconds(1));
  CHECK(harness.Take<capstan::Join>(kCoordinator).size() == 1);  // until a session is given
  View gathering = harness.MakeView({0});
  gathering.phase = JobPhase::kGathering;
  harness.FromCoordinator(gathering);
  CHECK(harness.Events<Session::Joined>().size() == 1);
  CHECK(harness.session->id().value != 0);
  harness.Tick(seconds(2));
  CHECK(harness.Take<capstan::Join>(kCoordinator).empty());
  const Heartbeat beat = harness.Take<Heartbeat>(kCoordinator).at(0);
  CHECK(beat.session == SessionId{7});
  CHECK(beat.nonce == 5);
  CHECK(harness.connected.empty());  // nothing to connect to before the job runs
}

TEST_CASE("a notice of the coordinator is said once, and again when it is another", "[client][join]") {
  SessionHarness harness;
  harness.Declare();
  const auto said = [&](const std::string& notice) {
    harness.Forget();
    View view = harness.MakeView({0});
    view.notice = notice;
    harness.FromCoordinator(view);
    std::string all;
    for (const Notice& line : harness.out().notices) all += line.text + ";";
    return all;
  };
  CHECK(said("").empty());
  CHECK(said("no slot") == "no slot;");
  CHECK(said("no slot").empty());
  CHECK(said("equal slots") == "equal slots;");
  CHECK(said("").empty());
}

TEST_CASE("a session says its rank and where its metrics are with every join", "[client][join][rank]") {
  SessionOptions options;
  options.name = "w";
  options.coordinator = kCoordinator;
  options.rank = 2;
  options.ranks = 3;
  options.metrics = "10.0.0.8:9100";
  Session session(std::move(options));
  Outbox out;
  session.Tick(seconds(1), &out);
  Declaration declaration;
  declaration.catalog = {{"t", {4}, {InitKind::kZeros, 0.0F}, true}};
  session.Declare(std::move(declaration), seconds(1), &out);
  REQUIRE(out.envelopes.size() == 2);
  for (const Envelope& envelope : out.envelopes) {
    const auto& join = envelope.message.header.Get<capstan::Join>();
    CHECK(join.rank == 2);
    CHECK(join.ranks == 3);
    CHECK(join.metrics == "10.0.0.8:9100");
  }
}

TEST_CASE("a catalog that cannot be fails at once", "[client][join]") {
  SessionHarness harness;
  Outbox out;
  Declaration declaration = harness.MakeDeclaration();
  declaration.catalog[0].shape = {0};
  harness.session->Declare(std::move(declaration), harness.now, &out);
  harness.Tick();
  CHECK(harness.Events<Session::Failed>().at(0).status.code() == Code::kInvalid);
  CHECK(out.envelopes.empty());
}

TEST_CASE("a shard that does not let the worker in ends the session, with its words", "[client][join][keys]") {
  SessionHarness harness;
  harness.Join({0});
  harness.FromShard(1, Error{Code::kRefused, {}, Incarnation{51}, {}, {}, 0, "of a start of the shard"});
  CHECK(harness.Events<Session::Failed>().empty());
  harness.FromShard(1, Error{Code::kRefused, {}, {}, {}, {}, 0, "it does not admit the key of this process"});
  const Status status = harness.Events<Session::Failed>().at(0).status;
  CHECK(status.code() == Code::kRefused);
  CHECK(status.message() == "shard 1: it does not admit the key of this process");
}

TEST_CASE("a refusal ends the session and says why", "[client][join]") {
  SessionHarness harness;
  harness.Join({0});
  harness.FromCoordinator(Error{Code::kRefused, {}, {}, {}, {}, 0, "another one took over"});
  const Status status = harness.Events<Session::Failed>().at(0).status;
  CHECK(status.code() == Code::kRefused);
  CHECK(status.message() == "the coordinator refuses this worker: another one took over");
  harness.Tick(seconds(5));
  CHECK(harness.Sent<Heartbeat>() == 0);
}

TEST_CASE("a coordinator that does not know the session is joined again, and the work goes on", "[client][join]") {
  SessionHarness harness;
  const RoundWork work = harness.Join({0}).BeginWork();
  harness.Forget();
  harness.FromCoordinator(Error{Code::kStale, {}, {}, {}, {}, 0, ""});
  CHECK(harness.Take<capstan::Join>(kCoordinator).at(0).catalog.size() == 4);
  View view = harness.MakeView({0});
  view.term = Term{2};
  view.session = SessionId{9};
  harness.FromCoordinator(view);
  CHECK(harness.Events<Session::Joined>().size() == 1);
  CHECK(harness.Events<Session::WorkVoid>().empty());
  harness.PushAll(work, {0, 1});
  CHECK(harness.TakeFor<capstan::Push>(0).size() == 2);
}

TEST_CASE("a coordinator that answers two messages of a session that it does not know is joined once",
          "[client][join]") {
  SessionHarness harness;
  harness.Join({0});
  harness.Forget();
  for (int answer = 0; answer < 2; ++answer) {  // to a Heartbeat, and to a TeamAsk
    harness.FromCoordinator(Error{Code::kStale, {}, {}, {}, {}, 0, ""});
  }
  CHECK(harness.Take<capstan::Join>(kCoordinator).size() == 1);
  harness.Tick(seconds(1));
  CHECK(harness.Take<capstan::Join>(kCoordinator).size() == 1);  // the first one may have been lost
}

// Has another coordinator give the worker another session. Its first view has these slots.
void JoinAgain(SessionHarness* harness, std::vector<SlotIndex> slots, JobPhase phase = JobPhase::kRunning) {
  harness->FromCoordinator(Error{Code::kStale, {}, {}, {}, {}, 0, ""});
  View view = harness->MakeView(std::move(slots));
  view.term = Term{2};
  view.session = SessionId{9};
  view.phase = phase;
  harness->FromCoordinator(view);
}

TEST_CASE("what is sent again carries the session that the worker has by then", "[client][join]") {
  SessionHarness harness;
  const RoundWork work = harness.Join({0}).BeginWork();
  harness.PushAll(work, {0, 1});
  harness.Forget();
  JoinAgain(&harness, {0});
  CHECK(harness.Events<Session::WorkVoid>().empty());
  harness.Tick(seconds(3));
  harness.LoseAll();
  std::vector<capstan::Push> pushes = harness.TakeFor<capstan::Push>(0);
  const std::vector<capstan::EndSlot> ends = harness.TakeFor<capstan::EndSlot>(0);
  CHECK(pushes.size() == 2);
  for (const capstan::Push& push : pushes) CHECK(push.session == SessionId{9});
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].session == SessionId{9});
}

// Its sum of both slots would not be taken from the new session.
TEST_CASE("a worker whose new session lacks a slot that it has pushed computes its other slots again",
          "[client][join]") {
  SessionHarness harness;
  const RoundWork work = harness.Join({0, 1}).BeginWork();
  harness.PushAll(work, {0, 2});
  harness.Ready();  // it waits for the next version
  harness.Forget();
  JoinAgain(&harness, {1});
  CHECK(harness.session->links().unstaged_pushes() == 0);
  REQUIRE(harness.TakeFor<CoverageQuery>(0).size() == 1);
  harness.NothingCovered(0);
  const std::vector<Session::WorkReady> ready = harness.Events<Session::WorkReady>();
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].work.step == Step{0});
  CHECK(ready[0].work.slots == std::vector<SlotIndex>{1});
  CHECK(ready[0].weights_complete);  // it still has the version of that step
}

TEST_CASE("the slots of a new session are those that it has when the job goes on", "[client][join]") {
  for (const std::vector<SlotIndex>& at_last : {std::vector<SlotIndex>{0, 1}, std::vector<SlotIndex>{0}}) {
    SessionHarness harness;
    const RoundWork work = harness.Join({0, 1}).BeginWork();
    harness.PushAll(work, {0, 2});
    const std::size_t unstaged = harness.session->links().unstaged_pushes();
    JoinAgain(&harness, {0}, JobPhase::kGathering);
    CHECK(harness.session->links().unstaged_pushes() == unstaged);
    View view = harness.MakeView(at_last);
    view.term = Term{2};
    view.session = SessionId{9};
    harness.FromCoordinator(view);
    CHECK((harness.session->links().unstaged_pushes() == 0) == (at_last.size() == 1));
  }
}

TEST_CASE("a worker whose new session lacks a slot that it computes is told to stop", "[client][join]") {
  SessionHarness harness;
  const RoundWork work = harness.Join({0, 1}).BeginWork();
  harness.Forget();
  JoinAgain(&harness, {0});
  CHECK(harness.Events<Session::WorkVoid>().at(0).round == work.round);
  harness.Push(work, {0, 2}, 0);
  CHECK(harness.session->links().unstaged_pushes() == 0);
}

TEST_CASE("a worker whose new session lacks a slot that it is about to compute chooses again", "[client][join]") {
  SessionHarness harness;
  harness.Join({0, 1}).Ready();
  harness.NothingCovered(0);  // it pulls for both slots, and no weights have come
  harness.Forget();
  JoinAgain(&harness, {1});
  REQUIRE(harness.TakeFor<CoverageQuery>(0).size() == 1);
  harness.NothingCovered(0);
  harness.SendAllWeights(0);
  const std::vector<Session::WorkReady> ready = harness.Events<Session::WorkReady>();
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].work.slots == std::vector<SlotIndex>{1});
}

TEST_CASE("async: a worker whose new session lacks a slot asks where its slots are", "[client][join][async]") {
  SessionHarness harness(Mode::kAsync);
  harness.Join({0, 1}).Ready();
  for (ShardIndex shard : {0U, 1U}) {
    Staged coverage = harness.MakeCoverage(shard, 0);
    coverage.clocks.assign(SessionHarness::kSlots, {2});
    harness.FromShard(shard, coverage);
  }
  harness.SendAllWeights(2);
  const RoundWork work = harness.Events<Session::WorkReady>().at(0).work;
  harness.PushAll(work, {0, 1});
  harness.Forget();
  JoinAgain(&harness, {1});
  CHECK(harness.session->links().unstaged_pushes() == 0);
  harness.Ready();
  CHECK(harness.TakeFor<CoverageQuery>(0).size() == 1);
}

TEST_CASE("a shard that does not know the session yet is asked again, and named", "[client][join]") {
  SessionHarness harness;
  const RoundWork work = harness.Join({0}).BeginWork();
  harness.PushAll(work, {0, 1});
  Error unknown;
  unknown.code = Code::kBusy;
  unknown.message = "this shard has not been told of your session";
  harness.FromShard(0, unknown);
  CHECK_THAT(harness.session->WaitingFor(),
             Catch::Matchers::Contains("shard 0 at shard-0 (which the coordinator has not told of this worker yet)"));
  CHECK(harness.Events<Session::Failed>().empty());
  harness.Forget();
  harness.Tick(seconds(3));
  CHECK(!harness.TakeFor<CoverageQuery>(0).empty());
  harness.FromShard(0, harness.MakeStaged(0, 0));
  CHECK_THAT(harness.session->WaitingFor(), Catch::Matchers::Contains("shard 0 at shard-0 (to answer)"));
}

TEST_CASE("views of an older term or sequence are not believed", "[client][view]") {
  SessionHarness harness;
  harness.Declare();
  View older = harness.MakeView({0, 1, 2, 3});
  View newer = harness.MakeView({0});
  newer.term = Term{2};
  harness.FromCoordinator(newer);
  harness.FromCoordinator(older);
  older.term = Term{2};
  harness.FromCoordinator(older);
  CHECK(harness.BeginWork().slots == std::vector<SlotIndex>{0});
}

TEST_CASE("a view that cannot be is not believed", "[client][view]") {
  SessionHarness harness;
  harness.Declare();
  std::vector<View> bad(8, harness.MakeView({0}));
  bad[0].slots = {4};
  bad[1].slots = {1, 0};
  bad[2].slots = {1, 1};
  bad[3].slots = {UINT32_MAX};
  bad[4].slot_count = 0;
  bad[5].shards[1].shard = 0;
  bad[6].shards[1].shard = 5;
  bad[7].slot_count = kSlotsMax + 1;
  for (View& view : bad) {
    view.sequence = 9;
    harness.FromCoordinator(view);
    CHECK(harness.connected.empty());
  }
  harness.FromCoordinator(harness.MakeView({0}));
  CHECK(harness.connected.size() == 2);
  CHECK(harness.BeginWork().slots == std::vector<SlotIndex>{0});
}

TEST_CASE("a view of a job with other slots than before is not believed", "[client][view]") {
  SessionHarness harness;
  harness.Join({0, 3});
  View fewer = harness.MakeView({0});
  fewer.slot_count = 2;  // the session's slot 3 would be none of the job's
  harness.FromCoordinator(fewer);
  const RoundWork work = harness.BeginWork();
  CHECK(work.slot_count == SessionHarness::kSlots);
  CHECK(work.slots == std::vector<SlotIndex>{0, 3});
}

TEST_CASE("a coordinator that is silent too long fails the session", "[client][deadline]") {
  SessionHarness harness;
  harness.Tick();
  for (int i = 0; i < 59; ++i) harness.Tick(seconds(1));
  CHECK(harness.Events<Session::Failed>().empty());
  harness.Tick(seconds(1));
  const Status status = harness.Events<Session::Failed>().at(0).status;
  CHECK(status.code() == Code::kUnreachable);
  CHECK(status.message().find("60 s") != std::string::npos);
  harness.Forget();
  harness.Tick(seconds(1));
  CHECK(harness.Sent<capstan::Join>() == 0);
}

TEST_CASE("any word of the coordinator counts against its silence", "[client][deadline]") {
  SessionHarness harness;
  harness.Join({});
  for (int i = 0; i < 200; ++i) {
    harness.Tick(seconds(1));
    if (i % 50 == 0) harness.FromCoordinator(harness.MakeView({}));
  }
  CHECK(harness.Events<Session::Failed>().empty());
}

TEST_CASE("the end of a job ends the session, which says so", "[client][end]") {
  SessionHarness harness;
  harness.Join({0}).BeginWork();
  View view = harness.MakeView({0});
  view.phase = JobPhase::kDone;
  harness.FromCoordinator(view);
  CHECK(harness.Events<Session::WorkVoid>().size() == 1);
  CHECK(harness.Events<Session::Finished>().size() == 1);
  CHECK(harness.Take<capstan::Leave>(kCoordinator).size() == 1);
  SessionHarness failed;
  failed.Join({0});
  view.phase = JobPhase::kFailed;
  view.message = "no server 1";
  failed.FromCoordinator(view);
  CHECK(failed.Events<Session::Failed>().at(0).status.message().find("no server 1") != std::string::npos);
}

TEST_CASE("whoever leaves says so once and is silent", "[client][end]") {
  SessionHarness harness;
  harness.Join({0});
  Outbox out;
  harness.session->Leave("enough", &out);
  REQUIRE(out.envelopes.size() == 1);
  const auto* leave = out.envelopes[0].message.header.As<capstan::Leave>();
  REQUIRE(leave != nullptr);
  CHECK(leave->reason == "enough");
  CHECK(leave->session == SessionId{7});
  harness.Tick(seconds(3));
  CHECK(harness.Sent<Heartbeat>() == 0);
}

TEST_CASE("a new generation voids the round, forgets the old timeline and keeps connections that stay",
          "[client][view]") {
  SessionHarness harness;
  const RoundWork work = harness.Join({0}).BeginWork();
  harness.Push(work, {0, 1}, 3);
  CHECK(harness.session->links().unstaged_pushes() == 1);
  View view = harness.MakeView({0}, 2);
  view.shards[1].endpoint = "shard-9";
  view.shards[1].incarnation = Incarnation{60};
  harness.FromCoordinator(view);
  CHECK(harness.Events<Session::WorkVoid>().at(0).round == work.round);
  CHECK(harness.session->links().unstaged_pushes() == 0);
  CHECK(harness.disconnected == std::vector<PeerId>{SessionHarness::PeerOf(1)});
  harness.Forget();
  harness.PushAll(work, {0, 1});  // the application has not seen WorkVoid yet
  CHECK(harness.Sent<capstan::Push>() == 0);
  CHECK(harness.Sent<capstan::EndSlot>() == 0);
}

}  // namespace
}  // namespace capstan::session
