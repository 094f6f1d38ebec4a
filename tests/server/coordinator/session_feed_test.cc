#include "server/coordinator/session_feed.h"

#include "server/coordinator/coordinator_options.h"
#include "server/coordinator/journal.h"
#include "server/coordinator/shard_table.h"
#include "server/shard/session_table.h"
#include "tests/catch.h"

namespace capstan::server {
namespace {

using Slots = std::vector<SlotIndex>;
using Ranges = std::vector<SlotRange>;

// A feed, and the tables of the shards that take its lists.
class FeedHarness {
 public:
  explicit FeedHarness(std::size_t shard_count = 2)
      : feed(shard_count), shards_(shard_count, 1), tables(shard_count), journal_(options_, &log_) {
    REQUIRE(journal_.Open().ok());
    for (ShardIndex shard = 0; shard < shard_count; ++shard) Connect(shard);
  }

  void Update(std::vector<SessionFeed::Member> members, SessionFeed::Moment moment) {
    feed.Update(members, moment);
    Send();
  }
  void Tell(std::vector<SessionFeed::Member> members, SessionFeed::Moment moment) {
    Update(std::move(members), moment);
    Deliver();
  }
  void Send(Term term = Term{1}) {
    Outbox out;
    feed.Send(term, shards_, &out);
    sent = std::move(out.envelopes);
  }
  // Delivers what was last sent, except to this shard.
  void Deliver(std::optional<ShardIndex> but = std::nullopt) {
    for (const Envelope& envelope : sent) {
      const auto shard = static_cast<ShardIndex>(envelope.to.value - 100);
      if (shard != but) tables[shard].Take(envelope.message.header.Get<LiveSessions>());
    }
  }
  // Pings the shard, which answers with its Hello.
  void Greet(ShardIndex shard, bool is_new = false) {
    feed.NotePing(shard);
    feed.NoteHello(shard, tables[shard].sequence(Term{1}), is_new);
  }
  const LiveSessions& list(std::size_t i = 0) const { return sent.at(i).message.header.Get<LiveSessions>(); }

  SessionFeed feed;

 private:
  void Connect(ShardIndex shard) {
    Hello hello;
    hello.shard = shard;
    hello.incarnation = Incarnation{1};
    REQUIRE(shards_.Admit(PeerId{100 + shard}, "", hello, journal_, {}).accepted);
  }

  ShardTable shards_;

 public:
  std::vector<SessionTable> tables;
  std::vector<Envelope> sent;

 private:
  CoordinatorOptions options_;
  MemoryCoordinatorLog log_;
  Journal journal_;
};

SessionFeed::Member Member(std::uint64_t session, Slots slots, std::uint64_t seen = 0) {
  return {SessionId{session}, "w", std::move(slots), false, true, seen};
}

SessionFeed::Moment At(std::uint64_t view, std::uint64_t step, bool runs = true) { return {runs, view, Step{step}}; }

Ranges SlotsAt(const SessionTable& table, std::uint64_t session) {
  const LiveSession* found = table.Find(SessionId{session});
  return found == nullptr ? Ranges{{77, 77}} : found->slots;
}

TEST_CASE("every shard gets a whole list first, and then what has changed", "[server][sessions]") {
  FeedHarness harness;
  harness.Update({Member(5, {0, 1}), Member(9, {2})}, At(1, 0));
  REQUIRE(harness.sent.size() == 2);
  CHECK(harness.list().base == 0);
  CHECK(harness.list().sessions.size() == 2);
  harness.Deliver();
  CHECK(SlotsAt(harness.tables[1], 5) == Ranges{{0, 2}});
  harness.Update({Member(5, {0, 1}), Member(9, {2})}, At(2, 0));
  CHECK(harness.sent.empty());
  harness.Update({Member(5, {0, 1}), Member(7, {3})}, At(3, 0));
  REQUIRE(harness.sent.size() == 2);
  CHECK(harness.list().base > 0);
  CHECK(harness.list().sessions.size() == 1);
  CHECK(harness.list().ended == std::vector<SessionId>{SessionId{9}});
  harness.Deliver();
  CHECK(harness.tables[0].Find(SessionId{9}) == nullptr);
  CHECK(SlotsAt(harness.tables[0], 7) == Ranges{{3, 4}});
}

TEST_CASE("a job without workers has a list, too: what an earlier coordinator named is over", "[server][sessions]") {
  FeedHarness harness;
  harness.Send();
  REQUIRE(harness.sent.size() == 2);
  CHECK(harness.list().base == 0);
  CHECK(harness.list().sessions.empty());
  harness.Send(Term{2});  // the same in another term
  CHECK(harness.sent.size() == 2);
  harness.Send(Term{2});
  CHECK(harness.sent.empty());
}

TEST_CASE("what a shard did not get, it gets again after its next Hello, with all changes since",
          "[server][sessions]") {
  FeedHarness harness;
  harness.Update({Member(5, {0})}, At(1, 0));
  harness.Deliver();
  harness.Update({Member(5, {0}), Member(6, {1})}, At(2, 0));
  harness.Deliver(0);
  harness.Update({Member(6, {1})}, At(3, 0));
  harness.Deliver();  // shard 0 cannot use it
  CHECK(harness.tables[0].Find(SessionId{5}) != nullptr);
  CHECK(harness.tables[1].Find(SessionId{5}) == nullptr);
  harness.Greet(0);
  harness.Greet(1);
  harness.Send();
  REQUIRE(harness.sent.size() == 1);  // only shard 0 lacks anything
  CHECK(harness.list().base > 0);
  harness.Deliver();
  CHECK(harness.tables[0].Find(SessionId{5}) == nullptr);
  CHECK(SlotsAt(harness.tables[0], 6) == Ranges{{1, 2}});
}

TEST_CASE("a Hello that a list has crossed does not have the list sent again", "[server][sessions]") {
  FeedHarness harness(1);
  harness.feed.NotePing(0);
  harness.Update({Member(5, {0})}, At(1, 0));
  harness.feed.NoteHello(0, 0, false);  // it answers the Ping, and the list is still on the line
  harness.Send();
  CHECK(harness.sent.empty());
  harness.Greet(0);  // the list is lost
  harness.Send();
  CHECK(harness.sent.size() == 1);
}

TEST_CASE("another incarnation of a shard gets a whole list", "[server][sessions]") {
  FeedHarness harness(1);
  harness.Update({Member(5, {0})}, At(1, 0));
  harness.Deliver();
  harness.tables[0] = {};
  harness.Greet(0, true);
  harness.Send();
  REQUIRE(harness.sent.size() == 1);
  CHECK(harness.list().base == 0);
  CHECK(harness.list().sessions.size() == 1);
}

TEST_CASE("a shard that is behind more ends of sessions than are remembered gets a whole list", "[server][sessions]") {
  FeedHarness harness(2);
  harness.Update({Member(1, {0})}, At(1, 0));
  harness.Deliver();
  std::uint64_t view = 2;
  for (std::size_t i = 0; i <= SessionFeed::kEndedMax; ++i, ++view) {
    harness.Update({Member(2 + i, {0})}, At(view, 0));
    harness.Deliver(0);
  }
  CHECK(harness.list().base > 0);  // shard 1 gets only changes
  harness.Greet(0);
  harness.Send();
  REQUIRE(harness.sent.size() == 1);
  CHECK(harness.list().base == 0);
  CHECK(harness.list().ended.empty());
  harness.Deliver();
  CHECK(harness.tables[0].size() == 1);
  CHECK(harness.tables[0].sequence(Term{1}) == harness.tables[1].sequence(Term{1}));
}

TEST_CASE("a session keeps slots that it loses until it knows, and the step in which it learned of it is over",
          "[server][sessions]") {
  FeedHarness harness(1);
  const auto slots = [&](std::uint64_t session) {
    harness.Deliver();
    return SlotsAt(harness.tables[0], session);
  };
  harness.Update({Member(5, {0, 1})}, At(1, 0));
  CHECK(slots(5) == Ranges{{0, 2}});
  harness.Update({Member(5, {0}, 1), Member(6, {1})}, At(2, 0));
  CHECK(slots(5) == Ranges{{0, 2}});
  CHECK(slots(6) == Ranges{{1, 2}});
  harness.Update({Member(5, {0}, 1), Member(6, {1})}, At(2, 4));  // four steps on, it still has not seen view 2
  CHECK(slots(5) == Ranges{{0, 2}});
  CHECK(harness.feed.any_earlier());
  harness.Update({Member(5, {0}, 2), Member(6, {1})}, At(2, 4));
  CHECK(slots(5) == Ranges{{0, 2}});
  harness.Update({Member(5, {0}, 2), Member(6, {1})}, At(2, 5));
  CHECK(slots(5) == Ranges{{0, 1}});
  CHECK_FALSE(harness.feed.any_earlier());
}

TEST_CASE("slots that come and go within a step are all kept until it is over", "[server][sessions]") {
  FeedHarness harness(1);
  harness.Update({Member(5, {0})}, At(1, 3));
  harness.Update({Member(5, {1})}, At(2, 3));
  harness.Update({Member(5, {4, 5})}, At(3, 3));
  harness.Update({Member(5, {0}, 3)}, At(4, 3));  // slot 0 again
  harness.Send();
  harness.feed.NoteHello(0, 0, true);
  harness.Send();
  harness.Deliver();
  CHECK(SlotsAt(harness.tables[0], 5) == Ranges{{0, 2}, {4, 6}});
  harness.Update({Member(5, {0}, 4)}, At(4, 3));
  harness.Update({Member(5, {0}, 4)}, At(4, 4));
  harness.Deliver();
  CHECK(SlotsAt(harness.tables[0], 5) == Ranges{{0, 1}});
}

TEST_CASE("a Heartbeat of another generation shows no view of this one", "[server][sessions]") {
  FeedHarness harness(1);
  harness.Tell({Member(5, {0, 1})}, At(1, 0));
  SessionFeed::Member member = Member(5, {0}, 9);
  member.in_generation = false;
  harness.Tell({member}, At(2, 0));
  harness.Tell({member}, At(2, 1));
  harness.Tell({member}, At(2, 2));
  CHECK(SlotsAt(harness.tables[0], 5) == Ranges{{0, 2}});
}

TEST_CASE("a new generation, or a job that does not run, keeps no slots of earlier views", "[server][sessions]") {
  FeedHarness harness(1);
  harness.Tell({Member(5, {0, 1})}, At(1, 0));
  harness.feed.BeginGeneration();
  harness.Tell({Member(5, {0})}, At(2, 0));
  CHECK(SlotsAt(harness.tables[0], 5) == Ranges{{0, 1}});
  harness.Tell({Member(5, {3})}, At(3, 0, false));
  CHECK(SlotsAt(harness.tables[0], 5) == Ranges{{3, 4}});
}

TEST_CASE("without global steps a session keeps its slots for a generation", "[server][sessions]") {
  FeedHarness harness(1);
  harness.Tell({Member(5, {0, 1})}, {true, 1, std::nullopt});
  harness.Tell({Member(5, {0}, 2)}, {true, 2, std::nullopt});
  harness.Tell({Member(5, {0}, 3)}, {true, 3, std::nullopt});
  CHECK(SlotsAt(harness.tables[0], 5) == Ranges{{0, 2}});
  CHECK_FALSE(harness.feed.any_earlier());  // no Tick has to look at them again
}

}  // namespace
}  // namespace capstan::server
