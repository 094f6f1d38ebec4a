// How a session handles slow lines and lost messages.
#include <map>

#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/push.h"
#include "tests/catch.h"
#include "tests/worker/session/session_harness.h"

namespace capstan::session {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Blocks = std::vector<BlockIndex>;

// Ticks every 50 ms, as a SessionLoop does, until `end`. Calls each() after every tick.
template <class F>
void Pass(SessionHarness* harness, Instant end, const F& each) {
  while (harness->now < end) {
    harness->Tick(milliseconds(50));
    each();
  }
}

TEST_CASE("a shard that acknowledges a block every 1.3 s is sent none of them twice", "[client][line]") {
  SessionHarness harness(Mode::kSync, 80);
  const RoundWork work = harness.Join({0}).BeginWork();
  harness.Forget();
  for (BlockIndex block = 80; block-- > 0;) harness.Push(work, {0, 1}, block);
  std::map<BlockIndex, int> sent;
  Blocks line;  // blocks of the pushes on the line, in order
  Instant next = harness.now + milliseconds(1300);
  Pass(&harness, harness.now + seconds(60), [&] {
    for (const auto& push : harness.TakeFor<capstan::Push>(1)) {
      ++sent[push.block];
      line.push_back(push.block);
    }
    if (harness.now < next || line.empty()) return;
    next += milliseconds(1300);
    Staged staged = harness.MakeStaged(1, 0, {{line.front(), {0, 1}}});
    staged.credit = static_cast<std::uint32_t>(80 / 2);
    line.erase(line.begin());
    harness.FromShard(1, staged);
  });
  CHECK(sent.size() == 40);  // all blocks of this shard
  for (const auto& [block, times] : sent) CHECK((times == 1));
}

TEST_CASE("a shard that brings a block every 1.3 s is asked for none of them twice", "[client][line]") {
  SessionHarness harness(Mode::kSync, 80);
  harness.Join({0}).Ready();
  harness.NothingCovered(0);
  std::map<BlockIndex, int> asked;
  Blocks line;
  Instant next = harness.now + milliseconds(1300);
  Pass(&harness, harness.now + seconds(60), [&] {
    for (const Pull& pull : harness.TakeFor<Pull>(1)) {
      for (BlockIndex block : pull.blocks) {
        if (++asked[block] == 1) line.push_back(block);
      }
    }
    if (harness.now < next || line.empty()) return;
    next += milliseconds(1300);
    harness.SendWeights(line.front(), 0);
    line.erase(line.begin());
  });
  CHECK(asked.size() == 40);
  for (const auto& [block, times] : asked) CHECK((times == 1));
}

TEST_CASE("of what has no answer a shard is asked, and is sent what it says is missing", "[client][line]") {
  SessionHarness harness(Mode::kSync, 8);
  const RoundWork work = harness.Join({0}).BeginWork();
  harness.PushAll(work, {0, 1});
  harness.Forget();
  harness.Tick(seconds(2));
  CHECK(harness.Sent<capstan::Push>() == 0);
  const CoverageQuery query = harness.TakeFor<CoverageQuery>(0).at(0);
  CHECK(query.step == Step{0});
  CHECK(query.nodes == std::vector<StagedNode>{{6, {0, 1}}, {4, {0, 1}}, {2, {0, 1}}, {0, {0, 1}}});
  Staged answer = harness.MakeStaged(0, 0, {{6, {0, 1}}});
  answer.answers = query.question;
  answer.missing = {{2, {0, 1}}};  // 4 and 0 are neither missing nor acknowledged yet
  harness.FromShard(0, answer);
  const std::vector<capstan::Push> again = harness.TakeFor<capstan::Push>(0);
  REQUIRE(again.size() == 1);
  CHECK(again[0].block == 2);
  harness.FromShard(0, answer);  // a late copy does not cover pushes sent after the question
  CHECK(harness.TakeFor<capstan::Push>(0).empty());
  CHECK(harness.session->links().unstaged_pushes() == 7);
}

TEST_CASE("questions become rarer while nothing comes, and go on", "[client][line]") {
  SessionHarness harness;
  const RoundWork work = harness.Join({0}).BeginWork();
  harness.Push(work, {0, 1}, 0);
  std::vector<Instant> asked;
  Pass(&harness, harness.now + seconds(60), [&] {
    if (!harness.TakeFor<CoverageQuery>(0).empty()) asked.push_back(harness.now);
  });
  REQUIRE(asked.size() >= 20);
  CHECK(asked.size() <= 40);
  CHECK(harness.Sent<capstan::Push>() == 1);
}

TEST_CASE("blocks that a shard has answered and that are not here are asked for again", "[client][line]") {
  SessionHarness harness(Mode::kSync, 8);
  harness.Join({0}).Ready();
  harness.NothingCovered(0);
  harness.SendWeights(0, 0);
  const std::size_t asked = harness.TakeFor<Pull>(0).size();
  CHECK(asked == 2);
  harness.Tick(seconds(2));
  CHECK(harness.TakeFor<Pull>(0).empty());
  Staged answer = harness.MakeStaged(0, 0);
  answer.answers = harness.TakeFor<CoverageQuery>(0).back().question;
  answer.pull_waits = true;  // the shard has the pull
  harness.FromShard(0, answer);
  CHECK(harness.TakeFor<Pull>(0).empty());
  answer.pull_waits = false;
  harness.FromShard(0, answer);
  CHECK(harness.TakeFor<Pull>(0).at(0).blocks == Blocks{2, 4, 6});
}

TEST_CASE("without global steps a shard's credit bounds the pushes that have no answer", "[client][line][async]") {
  SessionHarness harness(Mode::kAsync, 4000);
  harness.Join({0}).Ready();
  for (ShardIndex shard : {0U, 1U}) {
    Staged clocks = harness.MakeCoverage(shard, 0);
    clocks.clocks = {{0}, {0}, {0}, {0}};
    harness.FromShard(shard, clocks);
  }
  harness.SendAllWeights(0);
  const RoundWork work = harness.Events<Session::WorkReady>().at(0).work;
  harness.Forget();
  harness.PushAll(work, {0, 1});
  std::vector<capstan::Push> sent = harness.TakeFor<capstan::Push>(0);
  CHECK(sent.size() == 16);
  Staged staged = harness.MakeStaged(0, 1);
  staged.credit = 4;
  for (std::size_t i = 0; i < 13; ++i) staged.nodes.push_back({sent[i].block, {0, 1}});
  harness.FromShard(0, staged);
  CHECK(harness.TakeFor<capstan::Push>(0).size() == 1);  // besides three unacknowledged ones
}

}  // namespace
}  // namespace capstan::session
