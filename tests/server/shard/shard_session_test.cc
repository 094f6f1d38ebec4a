// Which senders a shard believes: a worker's message counts only from a live session, and a push only for its slots. A
// stranger who knows all other numbers changes nothing, and learns none of them.
#include "common/wire/messages/disagreement.h"
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/fetch.h"
#include "common/wire/messages/fetched.h"
#include "common/wire/messages/hello.h"
#include "common/wire/messages/limits.h"
#include "common/wire/messages/prepared.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/upload_block.h"
#include "common/wire/messages/weights.h"
#include "tests/catch.h"
#include "tests/server/shard/shard_harness.h"

namespace capstan::server {
namespace {

using Catch::Matchers::Contains;

constexpr SessionId kUnknown{99};
constexpr Node kBoth{0, 2}, kAll{0, 3};

// Takes the only answer to a peer, which must be an Error.
Error TakeError(ShardHarness* harness, PeerId to = kWorker) {
  const std::vector<Error> errors = harness->Take<Error>(to);
  REQUIRE(errors.size() == 1);
  CHECK(harness->Silent());
  return errors[0];
}

// Whether the Error tells none of the job's numbers.
bool TellsNothing(const Error& error) {
  return error.generation.value == 0 && error.incarnation.value == 0 && error.step.value == 0 && error.last.value == 0;
}

// ---- strangers -----------------------------------------------------------------------------------------------------

TEST_CASE("a message of an unknown session is refused without a number, and changes nothing", "[server][session]") {
  for (Mode mode : {Mode::kSync, Mode::kAsync, Mode::kAllReduce}) {
    ShardHarness harness({.mode = mode});
    harness.Start().session = kUnknown;
    const std::uint64_t digest = harness.shard->store().Digest();
    const std::uint64_t step = mode == Mode::kAsync ? 1 : 0;
    const auto refuses = [&] {
      const Error error = TakeError(&harness);
      CHECK(error.code == Code::kBusy);  // it may be told of the session soon
      CHECK_THAT(error.message, Contains("this shard has not been told of your session"));
      CHECK(TellsNothing(error));
    };
    const Slice payload = harness.Values(4, 1.0F);
    harness.Stage(step, 0, kLeaf0, 1, 1.0F);
    refuses();
    if (mode != Mode::kAsync) {
      harness.Stage(step, 0, kAll, 3, 1.0F);  // a sum of everything, with the right number of samples
      refuses();
      harness.Stage(step, 0, kLeaf0, 0, 0.0F);  // a slot without samples
      refuses();
    }
    harness.FromWorker(harness.MakeEnd(step, 0));
    refuses();
    harness.FromWorker(UploadBlock{harness.generation, Incarnation{7}, kUnknown, 0, Hash64(payload.bytes())}, payload);
    refuses();
    CoverageQuery query{harness.generation, Incarnation{7}, kUnknown, Step{step}};
    harness.FromWorker(query);
    refuses();
    query.question = 5;
    harness.FromWorker(query);
    refuses();
    CHECK(harness.metrics->unknown_sessions.value() == (mode == Mode::kAsync ? 5 : 7));
    CHECK(harness.shard->store().Digest() == digest);
    harness.session = SessionId{1};
    CHECK(harness.Coverage(step).nodes.empty());
    CHECK(harness.Coverage(step).ended.empty());
  }
}

TEST_CASE("no session is none that a shard knows", "[server][session]") {
  ShardHarness harness;
  harness.Start().Tell({harness.MakeSession(0), harness.MakeSession(1)});
  harness.session = SessionId{0};
  harness.Stage(0, 0, kLeaf0, 1, 1.0F);
  CHECK(TellsNothing(TakeError(&harness)));
}

TEST_CASE("a session that has ended, or that came before a list without it, counts no more", "[server][session]") {
  ShardHarness harness;
  harness.Start().Tell({harness.MakeSession(1), harness.MakeSession(2)});
  harness.session = SessionId{2};
  harness.Stage(0, 0, kLeaf0, 1, 1.0F);
  CHECK(harness.Take<Staged>().size() == 1);
  const std::uint64_t sequence = harness.shard->sessions().sequence(Term{1});
  harness.FromCoordinator(LiveSessions{Term{1}, sequence + 1, sequence, {}, {SessionId{2}}});
  harness.Stage(0, 0, kLeaf1, 1, 1.0F);
  CHECK(TakeError(&harness).code == Code::kBusy);
  harness.session = SessionId{1};
  harness.Tell({harness.MakeSession(3)});
  harness.Stage(0, 0, kLeaf1, 1, 1.0F);
  CHECK(TakeError(&harness).code == Code::kBusy);
}

TEST_CASE("a reader may pull and ask about its pulls without a session, and nothing else", "[server][session]") {
  ShardHarness harness;
  harness.Start().session = SessionId{0};
  harness.FromWorker(harness.MakePull(0, {0}));
  CHECK(harness.Take<Weights>().size() == 1);
  CoverageQuery query{harness.generation, Incarnation{7}, {}, Step{0}};
  query.question = 3;
  harness.FromWorker(query);
  const std::vector<Staged> answers = harness.Take<Staged>();
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].answers == 3);
  query.nodes = {{0, kLeaf0}};  // about pushes
  harness.FromWorker(query);
  CHECK(TellsNothing(TakeError(&harness)));
  query.nodes.clear();
  query.question = 0;
  harness.FromWorker(query);
  CHECK(TellsNothing(TakeError(&harness)));
}

TEST_CASE("a pull that guesses is told none of the shard's numbers, and not how near it is", "[server][session]") {
  ShardHarness harness;
  harness.FromCoordinator(harness.MakeReset(5));
  harness.Forget();
  harness.session = SessionId{0};
  std::vector<Error> errors;
  for (std::uint64_t generation : {0, 4, 5, 6, 1000}) {
    for (std::uint64_t incarnation : {0, 6, 7, 8}) {
      if (generation == 5 && incarnation == 7) continue;
      Pull pull = harness.MakePull(0, {0});
      pull.generation = Generation{generation};
      pull.incarnation = Incarnation{incarnation};
      harness.FromWorker(pull);
      errors.push_back(TakeError(&harness));
      CHECK(TellsNothing(errors.back()));
      CHECK(errors.back().code == errors.front().code);
      CHECK(errors.back().message == errors.front().message);
    }
  }
}

TEST_CASE("a known session of another generation is told the present one", "[server][session]") {
  ShardHarness harness;
  harness.FromCoordinator(harness.MakeReset(5));
  harness.Forget();
  harness.generation = Generation{4};
  harness.Stage(0, 0, kLeaf0, 1, 1.0F);
  const Error error = TakeError(&harness);
  CHECK(error.code == Code::kStale);
  CHECK(error.generation == Generation{5});
  CHECK(error.incarnation == Incarnation{7});
}

TEST_CASE("a shard whose workers reduce takes no pushes, and their uploads only from workers with slots",
          "[server][session][allreduce]") {
  ShardHarness harness({.mode = Mode::kAllReduce});
  Reset reset = harness.MakeReset();
  reset.parameters.upload_next = true;
  harness.FromCoordinator(reset);
  harness.Forget();
  const std::uint64_t digest = harness.shard->store().Digest();
  harness.Stage(0, 0, kLeaf0, 1, 1.0F);
  const Error error = TakeError(&harness);
  CHECK(error.code == Code::kInvalid);
  CHECK_THAT(error.message, Contains("reduce gradients themselves"));
  CHECK(harness.shard->store().Digest() == digest);
  CHECK(harness.shard->engine().staged_bytes() == 0);
  LiveSession spare = harness.MakeSession(2, "spare");
  spare.slots.clear();
  harness.Tell({harness.MakeSession(1), spare});
  const Slice array = harness.Values(4, 2.0F);
  UploadBlock upload{harness.generation, Incarnation{7}, SessionId{2}, 0, Hash64(array.bytes()), Step{0}, 0};
  harness.FromWorker(upload, array);
  CHECK(TakeError(&harness).code == Code::kBusy);
  upload.session = SessionId{1};
  harness.FromWorker(upload, array);
  CHECK(harness.Take<Error>().empty());
}

// ---- slots ---------------------------------------------------------------------------------------------------------

TEST_CASE("a push counts only from a session that holds all slots of its node", "[server][session][slots]") {
  ShardHarness harness;
  LiveSession first = harness.MakeSession(1, "a"), second = harness.MakeSession(2, "b");
  first.slots = {{0, 2}};
  second.slots = {{2, 3}};
  harness.Start().Tell({first, second});
  const auto refused = [&] {
    const Error error = TakeError(&harness);
    CHECK(error.code == Code::kBusy);  // its view may be older than the shard's list, or newer
    CHECK(error.generation == harness.generation);
    return error.message;
  };
  harness.Stage(0, 0, {2, 3}, 1, 1.0F);
  CHECK_THAT(refused(), Contains("slots [2, 3) are not all its sender's"));
  harness.Stage(0, 0, kAll, 3, 9.0F);
  refused();
  CHECK(harness.Coverage(0).nodes.empty());
  harness.Stage(0, 0, kBoth, 2, 2.0F);
  harness.session = SessionId{2};
  harness.Forget();
  harness.Stage(0, 0, kAll, 3, 9.0F);  // it would replace what another session sent
  refused();
  harness.Stage(0, 0, {2, 3}, 1, 1.0F);
  CHECK(harness.Coverage(0).nodes == std::vector<Staged::Entry>{{0, kBoth}, {0, {2, 3}}});
  harness.Stage(0, 0, kLeaf0, 1, 1.0F);  // not its slot, and staged already: it need not send it again
  CHECK(harness.Take<Staged>().size() == 1);
  CHECK(harness.Take<Error>().empty());
}

TEST_CASE("what a session says of others' slots contradicts nobody", "[server][session][slots]") {
  ShardHarness harness;
  LiveSession first = harness.MakeSession(1, "a"), second = harness.MakeSession(2, "b");
  first.slots = {{0, 2}};
  second.slots = {{2, 3}};
  harness.Start().Tell({first, second});
  harness.Stage(0, 0, kLeaf0, 1, 1.0F);
  EndSlot end = harness.MakeEnd(0, 0);
  end.program_state = "one";
  harness.FromWorker(end);
  harness.Forget();
  harness.session = SessionId{2};
  harness.Stage(0, 0, kLeaf0, 0, 0.0F);  // other samples
  end.session = SessionId{2};
  end.program_state = "another";
  harness.FromWorker(end);
  CHECK(harness.Take<Disagreement>(ShardHarness::kCoordinator).empty());
  CHECK(harness.Take<Error>().empty());
  end.report.slot = 2;  // its own
  harness.FromWorker(end);
  CHECK(harness.Take<Disagreement>(ShardHarness::kCoordinator).size() == 1);
  harness.FromWorker(end);
  CHECK(harness.Take<Disagreement>(ShardHarness::kCoordinator).empty());  // once in a step
}

TEST_CASE("a session whose slots come and go may push them for as long as the list has them",
          "[server][session][slots]") {
  ShardHarness harness;
  harness.Start();
  LiveSession session = harness.MakeSession(1);
  session.slots = {{0, 1}};
  harness.Tell({session});
  harness.Stage(0, 0, kBoth, 2, 2.0F);
  CHECK(TakeError(&harness).code == Code::kBusy);
  session.slots = {{0, 1}, {2, 3}};
  harness.Tell({session});
  harness.Stage(0, 0, kAll, 3, 2.0F);  // a slot between them is missing
  CHECK(TakeError(&harness).code == Code::kBusy);
  session.slots = {{0, 3}};
  harness.Tell({session});
  harness.Stage(0, 0, kBoth, 2, 2.0F);
  CHECK(harness.Take<Staged>().size() == 1);
}

TEST_CASE("a slot ends by a session that holds it; once it has ended, anybody's end is acknowledged",
          "[server][session][slots]") {
  for (Mode mode : {Mode::kSync, Mode::kAllReduce}) {
    ShardHarness harness({.mode = mode});
    LiveSession first = harness.MakeSession(1), second = harness.MakeSession(2);
    second.slots = {{1, 3}};
    harness.Start().Tell({first, second});
    harness.session = SessionId{2};
    harness.FromWorker(harness.MakeEnd(0, 0, 77));
    CHECK(TakeError(&harness).code == Code::kBusy);
    harness.FromWorker(harness.MakeEnd(1, 0, 77));  // of the next step
    CHECK(TakeError(&harness).code == Code::kBusy);
    harness.session = SessionId{1};
    harness.FromWorker(harness.MakeEnd(0, 0, 1));
    CHECK(harness.Take<Staged>().size() == 1);
    harness.session = SessionId{2};
    harness.FromWorker(harness.MakeEnd(0, 0, 77));
    CHECK(harness.Take<Staged>().at(0).ended == std::vector<SlotIndex>{0});
  }
}

TEST_CASE("async: only the session that holds a slot pushes and ends it; what is applied is acknowledged to anybody",
          "[server][session][slots][async]") {
  ShardHarness harness({.mode = Mode::kAsync});
  LiveSession first = harness.MakeSession(1), second = harness.MakeSession(2);
  first.slots = {{0, 1}};
  second.slots = {{1, 3}};
  harness.Start().Tell({first, second});
  harness.session = SessionId{2};
  harness.Stage(1, 0, kLeaf0, 1, 4.0F);
  CHECK(TakeError(&harness).code == Code::kBusy);
  harness.Stage(3, 0, kLeaf0, 1, 4.0F);  // it is not told of the gap either
  CHECK(TakeError(&harness).last == SequenceNumber{0});
  harness.FromWorker(harness.MakeEnd(1, 0));
  CHECK(TakeError(&harness).code == Code::kBusy);
  CHECK(harness.WeightOf(0) == 0.0F);
  harness.session = SessionId{1};
  harness.Stage(1, 0, kLeaf0, 1, 4.0F);
  CHECK(harness.WeightOf(0) == -4.0F);
  harness.Forget();
  harness.session = SessionId{2};
  harness.Stage(1, 0, kLeaf0, 1, 9.0F);
  CHECK(harness.Take<Staged>().size() == 1);
  CHECK(harness.WeightOf(0) == -4.0F);
}

// ---- the coordinator's list ----------------------------------------------------------------------------------------

LiveSession Session(std::uint64_t session, SlotIndex slots = 1) {
  return {SessionId{session}, "w", {{0, slots}}, false};
}

TEST_CASE("a list changes the list that it continues, or a newer one that it goes beyond", "[server][session][list]") {
  SessionTable table;
  CHECK(table.sequence(Term{1}) == 0);
  CHECK(table.Take({Term{1}, 3, 0, {Session(1), Session(2)}, {}}));
  CHECK(table.sequence(Term{1}) == 3);
  CHECK(table.Take({Term{1}, 5, 3, {Session(2, 2), Session(3)}, {SessionId{1}}}));
  CHECK(table.size() == 2);
  CHECK(table.Find(SessionId{1}) == nullptr);
  CHECK(table.Find(SessionId{2})->slots == std::vector<SlotRange>{{0, 2}});
  // It has all changes since list 3, and so also those since list 5.
  CHECK(table.Take({Term{1}, 6, 3, {Session(2, 2), Session(3, 4)}, {SessionId{1}}}));
  CHECK(table.Find(SessionId{3})->slots == std::vector<SlotRange>{{0, 4}});
  CHECK(table.sequence(Term{1}) == 6);
}

TEST_CASE("a list that is older, or continues one that never came, changes nothing", "[server][session][list]") {
  SessionTable table;
  CHECK_FALSE(table.Take({Term{1}, 4, 3, {Session(1)}, {}}));  // there is no list yet
  CHECK(table.Take({Term{1}, 4, 0, {Session(1)}, {}}));
  CHECK_FALSE(table.Take({Term{1}, 4, 0, {Session(9)}, {}}));
  CHECK_FALSE(table.Take({Term{1}, 3, 0, {Session(9)}, {}}));
  CHECK_FALSE(table.Take({Term{1}, 4, 2, {Session(9)}, {SessionId{1}}}));
  CHECK_FALSE(table.Take({Term{1}, 7, 6, {Session(9)}, {SessionId{1}}}));
  CHECK(table.size() == 1);
  CHECK(table.Find(SessionId{1}) != nullptr);
  CHECK(table.sequence(Term{1}) == 4);
}

TEST_CASE("another coordinator's first list is whole; until then that of the coordinator before it counts",
          "[server][session][list]") {
  SessionTable table;
  CHECK(table.Take({Term{1}, 8, 0, {Session(1)}, {}}));
  CHECK_FALSE(table.Take({Term{2}, 9, 8, {Session(2)}, {}}));
  CHECK(table.sequence(Term{2}) == 0);
  CHECK(table.Find(SessionId{1}) != nullptr);
  CHECK(table.Take({Term{2}, 1, 0, {}, {}}));
  CHECK(table.size() == 0);
  CHECK(table.sequence(Term{2}) == 1);
  CHECK_FALSE(table.Take({Term{1}, 9, 0, {Session(1)}, {}}));
}

TEST_CASE("a table has at most as many sessions as a job, and refuses a list that would make it longer",
          "[server][session][list]") {
  SessionTable table;
  LiveSessions all{Term{1}, 1, 0, {}, {}};
  for (std::uint64_t i = 1; i <= kWorkersMax; ++i) all.sessions.push_back(Session(i));
  CHECK(table.Take(all));
  CHECK(table.size() == kWorkersMax);
  CHECK_FALSE(table.Take({Term{1}, 2, 1, {Session(kWorkersMax + 1)}, {}}));
  CHECK(table.size() == kWorkersMax);
  CHECK(table.Find(SessionId{kWorkersMax + 1}) == nullptr);
  CHECK(table.Take({Term{1}, 2, 1, {Session(kWorkersMax + 1)}, {SessionId{1}}}));
  CHECK(table.size() == kWorkersMax);
}

TEST_CASE("a shard tells in its Hello which list of the present term it has", "[server][session][list]") {
  ShardHarness harness;
  harness.Start();
  const auto said = [&](std::uint64_t term) {
    harness.FromCoordinator(Ping{Term{term}, harness.generation});
    return harness.Take<Hello>(kCoordinator).at(0).sessions;
  };
  const std::uint64_t sequence = said(1);
  CHECK(sequence > 0);
  harness.Tell({harness.MakeSession(1), harness.MakeSession(2)});
  CHECK(said(1) == sequence + 1);
  CHECK(said(2) == 0);
}

// ---- other shards --------------------------------------------------------------------------------------------------

TEST_CASE("a part of a snapshot goes only to a peer that has the key of the newest Reset", "[server][session][fetch]") {
  ShardHarness harness;
  Reset reset = harness.MakeReset();
  reset.fetch_key = 1234;
  harness.FromCoordinator(reset);
  harness.FromCoordinator(harness.MakePin(0));
  harness.Forget();
  const SnapshotId kept{Generation{1}, Version{0}};
  const auto answered = [&](std::uint64_t key, BlockIndex block) {
    harness.FromWorker(Fetch{kept, 0, block, key}, {}, kOther);
    const bool any = !harness.Silent();
    harness.Forget();
    return any;
  };
  CHECK(answered(1234, 0));
  CHECK(answered(1234, kFetchHeader));
  CHECK(answered(1234, kFetchQuestion));
  for (std::uint64_t key : {0, 1233}) {
    for (BlockIndex block : {BlockIndex{0}, kFetchHeader, kFetchQuestion}) CHECK_FALSE(answered(key, block));
  }
  reset.fetch_key = 77;  // another coordinator sends the Reset again
  harness.FromCoordinator(reset);
  harness.Forget();
  CHECK_FALSE(answered(1234, 0));
  CHECK(answered(77, 0));
}

TEST_CASE("a shard without a key gives no part to anybody", "[server][session][fetch]") {
  ShardHarness harness;
  Reset reset = harness.MakeReset();
  reset.fetch_key = 0;
  harness.FromCoordinator(reset);
  harness.FromCoordinator(harness.MakePin(0));
  harness.Forget();
  harness.FromWorker(Fetch{{Generation{1}, Version{0}}, 0, 0, 0}, {}, kOther);
  CHECK(harness.Silent());
}

}  // namespace
}  // namespace capstan::server
