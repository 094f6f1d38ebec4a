// How a session joins a job, follows it, and ends.
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/limits.h"
#include "common/wire/messages/membership.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/view.h"
#include "tests/catch.h"
#include "tests/worker/session/session_bench.h"

namespace capstan::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("a shard that cannot be connected to ends the session, with its name and the cause", "[client]") {
  SessionBench bench;
  bench.unreachable = "shard-1";
  bench.Declare();
  bench.FromCoordinator(bench.MakeView({0}));
  const std::vector<Session::Failed> failed = bench.Events<Session::Failed>();
  REQUIRE(failed.size() == 1);
  CHECK(failed[0].status.code() == Code::kUnreachable);
  CHECK(failed[0].status.message() == "shard 1 at shard-1 cannot be connected to: no socket can be made");
  CHECK(bench.Take<Leave>(kCoordinator).size() == 1);
}

TEST_CASE("a view without addresses moves slots in the generation that the session is in, and begins no other",
          "[client]") {
  SessionBench bench;
  bench.Join({0});
  const std::size_t connected = bench.connected.size();
  View view = bench.MakeView({1});
  view.shards.clear();
  bench.FromCoordinator(view);
  bench.Ready();
  bench.NothingCovered(0);
  bench.SendAllWeights(0);
  const std::vector<Session::WorkReady> ready = bench.Events<Session::WorkReady>();
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].work.slots == std::vector<SlotIndex>{1});
  View next = bench.MakeView({1}, 2);
  const std::vector<ShardAddress> shards = std::exchange(next.shards, {});
  bench.FromCoordinator(next);
  CHECK(bench.session->generation() == Generation{1});
  next.shards = shards;
  bench.FromCoordinator(next);
  CHECK(bench.session->generation() == Generation{2});
  CHECK(bench.connected.size() == 2 * connected);
}

TEST_CASE("a session asks for the job file until it comes, then declares what it brings", "[client][join]") {
  SessionBench bench;
  bench.Tick();
  CHECK(bench.Take<capstan::Join>(kCoordinator).at(0).catalog.empty());
  bench.Tick(milliseconds(50));
  CHECK(bench.Take<capstan::Join>(kCoordinator).empty());
  bench.Tick(milliseconds(100));
  CHECK(bench.Take<capstan::Join>(kCoordinator).size() == 1);
  View view;
  view.job = JobId{1, 2};
  view.job_file = "text";
  bench.FromCoordinator(view);
  const Session::JobFile file = bench.Events<Session::JobFile>().at(0);
  CHECK(file.text == "text");
  CHECK(file.job == JobId{1, 2});
  bench.Declare();
  const capstan::Join join = bench.Take<capstan::Join>(kCoordinator).at(0);
  CHECK(join.job == JobId{1, 2});
  CHECK(join.worker == "w");
  CHECK(join.nonce == 5);
  CHECK(join.numeric_class == "class");
  CHECK(join.catalog.size() == 4);
  bench.Tick(seconds(1));
  CHECK(bench.Take<capstan::Join>(kCoordinator).size() == 1);  // until a session is given
  View gathering = bench.MakeView({0});
  gathering.phase = JobPhase::kGathering;
  bench.FromCoordinator(gathering);
  CHECK(bench.Events<Session::Joined>().at(0).session == SessionId{7});
  CHECK(bench.session->joined());
  bench.Tick(seconds(2));
  CHECK(bench.Take<capstan::Join>(kCoordinator).empty());
  const Beat beat = bench.Take<Beat>(kCoordinator).at(0);
  CHECK(beat.session == SessionId{7});
  CHECK(beat.nonce == 5);
  CHECK(bench.connected.empty());  // nothing to connect to before the job runs
}

TEST_CASE("a notice of the coordinator is said once, and again when it is another", "[client][join]") {
  SessionBench bench;
  bench.Declare();
  const auto said = [&](const std::string& notice) {
    bench.Forget();
    View view = bench.MakeView({0});
    view.notice = notice;
    bench.FromCoordinator(view);
    std::string all;
    for (const Notice& line : bench.out().notices) all += line.text + ";";
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
  SessionBench bench;
  Outbox out;
  Declaration declaration = bench.MakeDeclaration();
  declaration.catalog[0].shape = {0};
  bench.session->Declare(std::move(declaration), bench.now, &out);
  bench.Tick();
  CHECK(bench.Events<Session::Failed>().at(0).status.code() == Code::kInvalid);
  CHECK(out.envelopes.empty());
}

TEST_CASE("a refusal ends the session and says why", "[client][join]") {
  SessionBench bench;
  bench.Join({0});
  bench.FromCoordinator(Error{Code::kRefused, {}, {}, {}, {}, 0, "another one took over"});
  const Status status = bench.Events<Session::Failed>().at(0).status;
  CHECK(status.code() == Code::kRefused);
  CHECK(status.message() == "the coordinator refuses this worker: another one took over");
  bench.Tick(seconds(5));
  CHECK(bench.Sent<Beat>() == 0);
}

TEST_CASE("a coordinator that does not know the session is joined again, and the work goes on", "[client][join]") {
  SessionBench bench;
  const Work work = bench.Join({0}).BeginWork();
  bench.Forget();
  bench.FromCoordinator(Error{Code::kStale, {}, {}, {}, {}, 0, ""});
  CHECK(bench.Take<capstan::Join>(kCoordinator).at(0).catalog.size() == 4);
  View view = bench.MakeView({0});
  view.term = Term{2};
  view.session = SessionId{9};
  bench.FromCoordinator(view);
  CHECK(bench.Events<Session::Joined>().at(0).session == SessionId{9});
  CHECK(bench.Events<Session::WorkVoid>().empty());
  bench.PushAll(work, {0, 1});
  CHECK(bench.TakeFor<capstan::Push>(0).size() == 2);
}

TEST_CASE("views of an older term or sequence are not believed", "[client][view]") {
  SessionBench bench;
  bench.Declare();
  View older = bench.MakeView({0, 1, 2, 3});
  View newer = bench.MakeView({0});
  newer.term = Term{2};
  bench.FromCoordinator(newer);
  bench.FromCoordinator(older);
  older.term = Term{2};
  bench.FromCoordinator(older);
  CHECK(bench.BeginWork().slots == std::vector<SlotIndex>{0});
}

TEST_CASE("a view that cannot be is not believed", "[client][view]") {
  SessionBench bench;
  bench.Declare();
  std::vector<View> bad(8, bench.MakeView({0}));
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
    bench.FromCoordinator(view);
    CHECK(bench.connected.empty());
  }
  bench.FromCoordinator(bench.MakeView({0}));
  CHECK(bench.connected.size() == 2);
  CHECK(bench.BeginWork().slots == std::vector<SlotIndex>{0});
}

TEST_CASE("a coordinator that is silent too long fails the session", "[client][deadline]") {
  SessionBench bench;
  bench.Tick();
  for (int i = 0; i < 59; ++i) bench.Tick(seconds(1));
  CHECK(bench.Events<Session::Failed>().empty());
  bench.Tick(seconds(1));
  const Status status = bench.Events<Session::Failed>().at(0).status;
  CHECK(status.code() == Code::kUnreachable);
  CHECK(status.message().find("60 s") != std::string::npos);
  bench.Forget();
  bench.Tick(seconds(1));
  CHECK(bench.Sent<capstan::Join>() == 0);
}

TEST_CASE("any word of the coordinator counts against its silence", "[client][deadline]") {
  SessionBench bench;
  bench.Join({});
  for (int i = 0; i < 200; ++i) {
    bench.Tick(seconds(1));
    if (i % 50 == 0) bench.FromCoordinator(bench.MakeView({}));
  }
  CHECK(bench.Events<Session::Failed>().empty());
}

TEST_CASE("the end of a job ends the session, which says so", "[client][end]") {
  SessionBench bench;
  bench.Join({0}).BeginWork();
  View view = bench.MakeView({0});
  view.phase = JobPhase::kDone;
  bench.FromCoordinator(view);
  CHECK(bench.Events<Session::WorkVoid>().size() == 1);
  CHECK(bench.Events<Session::Finished>().size() == 1);
  CHECK(bench.Take<capstan::Leave>(kCoordinator).size() == 1);
  SessionBench failed;
  failed.Join({0});
  view.phase = JobPhase::kFailed;
  view.message = "no server 1";
  failed.FromCoordinator(view);
  CHECK(failed.Events<Session::Failed>().at(0).status.message().find("no server 1") != std::string::npos);
}

TEST_CASE("whoever leaves says so once and is silent", "[client][end]") {
  SessionBench bench;
  bench.Join({0});
  Outbox out;
  bench.session->Leave("enough", &out);
  REQUIRE(out.envelopes.size() == 1);
  const auto* leave = out.envelopes[0].message.header.As<capstan::Leave>();
  REQUIRE(leave != nullptr);
  CHECK(leave->reason == "enough");
  CHECK(leave->session == SessionId{7});
  bench.Tick(seconds(3));
  CHECK(bench.Sent<Beat>() == 0);
}

TEST_CASE("a new generation voids the round, forgets the old history and keeps connections that stay",
          "[client][view]") {
  SessionBench bench;
  const Work work = bench.Join({0}).BeginWork();
  bench.Push(work, {0, 1}, 3);
  CHECK(bench.session->unstaged_pushes() == 1);
  View view = bench.MakeView({0}, 2);
  view.shards[1].endpoint = "shard-9";
  view.shards[1].incarnation = Incarnation{60};
  bench.FromCoordinator(view);
  CHECK(bench.Events<Session::WorkVoid>().at(0).round == work.round);
  CHECK(bench.session->unstaged_pushes() == 0);
  CHECK(bench.disconnected == std::vector<PeerId>{SessionBench::PeerOf(1)});
  bench.Forget();
  bench.PushAll(work, {0, 1});  // the application does not know it yet
  CHECK(bench.Sent<capstan::Push>() == 0);
  CHECK(bench.Sent<capstan::EndSlot>() == 0);
}

}  // namespace
}  // namespace capstan::client
