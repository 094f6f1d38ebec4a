// When a mesh is over, and whom it names: the rules that a test of threads cannot time.
#include "worker/collective/mesh_core.h"

#include <cstring>

#include "tests/catch.h"

namespace capstan::collective {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Deadline kStart{};

MeshOptions OptionsOf(int rank, int size) {
  MeshOptions options{rank, size, "", {}};
  options.silence = seconds(3);
  return options;
}

Message ControlMessage(const Control& control) {
  MeshControl message{std::string(sizeof control, '\0')};
  std::memcpy(message.control.data(), &control, sizeof control);
  return {std::move(message), {}};
}

Control ControlIn(const Outgoing& outgoing) {
  Control control{};
  const MeshControl& message = outgoing.header.Get<MeshControl>();
  std::memcpy(static_cast<void*>(&control), message.control.data(), sizeof control);
  return control;
}

// Rank 0 of three, connected, in a call in which it waits for a message of rank 1.
struct Waiting {
  Waiting() {
    for (const int other : {1, 2}) {
      core.On(other, ControlMessage({ControlKind::kProbe}), &out);
      core.On(other, ControlMessage({ControlKind::kHere}), &out);
    }
    CHECK(core.unconnected().none());
    core.Enter(kStart + seconds(100));
    message = {1, 5, bytes.size(), nullptr, bytes.data()};
    core.Begin(&message, kStart, &out);
    core.Await(&message);
    core.Tick(kStart, &out);
    out.clear();
  }
  // Returns the message for which it waits.
  Message Piece() {
    return {MeshPiece{5, 8, 0}, WholeBuffer(WrapForeign(
                                    bytes.data(), 8, [](void*) {}, nullptr))};
  }
  // The ranks to which messages of this kind have been put out since the last call.
  RankSet Sent(ControlKind kind) {
    RankSet to;
    for (const Outgoing& outgoing : std::exchange(out, {})) {
      to.set(static_cast<std::size_t>(outgoing.to),
             to.test(static_cast<std::size_t>(outgoing.to)) || ControlIn(outgoing).kind == kind);
    }
    return to;
  }

  MeshCore core{OptionsOf(0, 3)};
  std::vector<std::byte> bytes = std::vector<std::byte>(8);
  MeshMessage message;
  Outgoings out;
};

RankSet Ranks(std::initializer_list<std::size_t> ranks) {
  RankSet set;
  for (const std::size_t rank : ranks) set.set(rank);
  return set;
}

TEST_CASE("a rank to which the connection broke has time to say why, before it counts as lost", "[collective]") {
  Waiting rank;
  rank.core.OnBreak(1, "the connection broke", kStart, &rank.out);
  rank.core.Tick(kStart + milliseconds(199), &rank.out);
  CHECK_FALSE(rank.core.failure());
  SECTION("it has failed for another reason") {
    rank.core.On(1, ControlMessage(ControlOf({Reason::kAbsent, Ranks({2})})), &rank.out);
    REQUIRE(rank.core.failure());
    CHECK(rank.core.failure()->missing == Ranks({2}));
  }
  SECTION("it says nothing") {
    rank.core.Tick(kStart + milliseconds(200), &rank.out);
    CHECK(rank.Sent(ControlKind::kAsk) == Ranks({2}));
    rank.core.On(2, ControlMessage({ControlKind::kAnswer, 1, {}, {}}), &rank.out);
    REQUIRE(rank.core.failure());
    CHECK(rank.core.failure()->reason == Reason::kLost);
    CHECK(rank.core.failure()->missing == Ranks({1}));
    CHECK(rank.Sent(ControlKind::kFailure) == Ranks({2}));
  }
  SECTION("its last message comes after all: it has left after its last call") {
    rank.core.On(1, rank.Piece(), &rank.out);
    CHECK(rank.message.done);
    rank.core.Tick(kStart + milliseconds(200), &rank.out);
    rank.core.Tick(kStart + seconds(5), &rank.out);
    CHECK_FALSE(rank.core.failure());
  }
}

TEST_CASE("a rank that leaves is no loss for a rank that does not need it", "[collective]") {
  Waiting rank;
  rank.core.OnBreak(2, "the connection broke", kStart, &rank.out);
  rank.core.Tick(kStart + seconds(2), &rank.out);
  CHECK_FALSE(rank.core.failure());
  SECTION("and is not named when another one is lost") {
    rank.core.OnBreak(1, "the connection broke", kStart + seconds(2), &rank.out);
    rank.core.Tick(kStart + seconds(3), &rank.out);
    REQUIRE(rank.core.failure());
    CHECK(rank.core.failure()->reason == Reason::kLost);
    CHECK(rank.core.failure()->missing == Ranks({1}));
  }
  SECTION("but is missing in a call that does not end in time") {
    rank.core.On(1, ControlMessage({ControlKind::kHere}), &rank.out);
    rank.core.Tick(kStart + seconds(100), &rank.out);
    rank.core.On(1, ControlMessage({ControlKind::kAnswer, 1, {}, {}}), &rank.out);
    REQUIRE(rank.core.failure());
    CHECK(rank.core.failure()->reason == Reason::kAbsent);
    CHECK(rank.core.failure()->missing == Ranks({2}));
  }
}

TEST_CASE("a connection that breaks while the loss of another rank is looked into is not forgotten", "[collective]") {
  Waiting rank;
  std::vector<std::byte> bytes(8);
  MeshMessage other{2, 6, bytes.size(), nullptr, bytes.data()};
  rank.core.Begin(&other, kStart, &rank.out);
  rank.core.OnBreak(1, "1 broke", kStart, &rank.out);
  rank.core.OnBreak(2, "2 broke", kStart + milliseconds(100), &rank.out);
  rank.core.On(1, rank.Piece(), &rank.out);
  rank.core.Tick(kStart + milliseconds(200), &rank.out);
  CHECK_FALSE(rank.core.failure());
  rank.core.Tick(kStart + milliseconds(400), &rank.out);
  REQUIRE(rank.core.failure());
  CHECK(rank.core.failure()->reason == Reason::kLost);
  CHECK(rank.core.failure()->missing == Ranks({2}));
  CHECK(rank.core.failure()->why == "2 broke");
}

TEST_CASE("at a deadline, ranks that have not begun the call and ranks that do not answer are missing",
          "[collective]") {
  Waiting rank;
  rank.core.On(1, ControlMessage({ControlKind::kHere}), &rank.out);
  rank.core.Tick(kStart + seconds(100), &rank.out);
  CHECK(rank.Sent(ControlKind::kAsk) == Ranks({1, 2}));
  rank.core.On(1, ControlMessage({ControlKind::kAnswer, 1, {}, {}}), &rank.out);
  CHECK_FALSE(rank.core.failure());
  SECTION("one has not begun it") {
    rank.core.On(2, ControlMessage({ControlKind::kAnswer, 0, {}, {}}), &rank.out);
    REQUIRE(rank.core.failure());
    CHECK(rank.core.failure()->missing == Ranks({2}));
  }
  SECTION("one does not answer") {
    rank.core.Tick(kStart + seconds(101), &rank.out);
    REQUIRE(rank.core.failure());
    CHECK(rank.core.failure()->missing == Ranks({2}));
  }
  CHECK(rank.core.failure()->reason == Reason::kAbsent);
}

TEST_CASE("a rank that sends nothing for long, though it is probed, is silent", "[collective]") {
  Waiting rank;
  Deadline now = kStart;
  const auto pass = [&](seconds time, bool answers) {
    for (const Deadline until = now + time; now < until; now += milliseconds(300)) {
      rank.core.Tick(now, &rank.out);
      const bool is_probed = rank.Sent(ControlKind::kProbe).test(1);
      if (is_probed && answers) rank.core.On(1, ControlMessage({ControlKind::kHere}), &rank.out);
    }
  };
  pass(seconds(30), true);
  CHECK_FALSE(rank.core.failure());
  pass(seconds(6), false);
  REQUIRE(rank.core.failure());
  CHECK(rank.core.failure()->reason == Reason::kSilent);
  CHECK(rank.core.failure()->missing.test(1));
}

TEST_CASE("a member's bytes that are no message of a mesh end it and name the member", "[collective]") {
  Waiting rank;
  rank.core.On(2, {MeshPiece{1, 8, 0}, {}}, &rank.out);
  REQUIRE(rank.core.failure());
  CHECK(rank.core.failure()->missing == Ranks({2}));
}

TEST_CASE("a rank knows of a failure when it has told it itself", "[collective]") {
  Waiting rank;
  rank.core.Abort(&rank.out);
  CHECK(rank.core.untold() == Ranks({1, 2}));
  rank.core.On(1, ControlMessage(ControlOf(*rank.core.failure())), &rank.out);
  CHECK(rank.core.untold() == Ranks({2}));
  rank.core.OnBreak(2, "the connection broke", kStart, &rank.out);
  CHECK(rank.core.untold().none());
}

}  // namespace
}  // namespace capstan::collective
