// How a session handles slow lines and lost messages.
#include <map>

#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/push.h"
#include "tests/catch.h"
#include "tests/worker/session/session_bench.h"

namespace capstan::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Blocks = std::vector<BlockIndex>;

// Ticks as a loop does, until `end`, and calls each(now) after every tick.
template <class F>
void Pass(SessionBench* bench, Instant end, const F& each) {
  while (bench->now < end) {
    bench->Tick(milliseconds(50));
    each();
  }
}

TEST_CASE("a shard that acknowledges a block every 1.3 s is sent none of them twice", "[client][line]") {
  SessionBench bench(Mode::kSync, 80);
  const Work work = bench.Join({0}).BeginWork();
  bench.Forget();
  for (BlockIndex block = 80; block-- > 0;) bench.Push(work, {0, 1}, block);
  std::map<BlockIndex, int> sent;
  Blocks line;  // pushes on it, in order
  Instant next = bench.now + milliseconds(1300);
  Pass(&bench, bench.now + seconds(60), [&] {
    for (const auto& push : bench.TakeFor<capstan::Push>(1)) {
      ++sent[push.block];
      line.push_back(push.block);
    }
    if (bench.now < next || line.empty()) return;
    next += milliseconds(1300);
    Staged staged = bench.MakeStaged(1, 0, {{line.front(), {0, 1}}});
    staged.credit = static_cast<std::uint32_t>(80 / 2);
    line.erase(line.begin());
    bench.FromShard(1, staged);
  });
  CHECK(sent.size() == 40);  // all of this shard
  for (const auto& [block, times] : sent) CHECK((times == 1));
}

TEST_CASE("a shard that brings a block every 1.3 s is asked for none of them twice", "[client][line]") {
  SessionBench bench(Mode::kSync, 80);
  bench.Join({0}).Ready();
  bench.NothingCovered(0);
  std::map<BlockIndex, int> asked;
  Blocks line;
  Instant next = bench.now + milliseconds(1300);
  Pass(&bench, bench.now + seconds(60), [&] {
    for (const Pull& pull : bench.TakeFor<Pull>(1)) {
      for (BlockIndex block : pull.blocks) {
        if (++asked[block] == 1) line.push_back(block);
      }
    }
    if (bench.now < next || line.empty()) return;
    next += milliseconds(1300);
    bench.SendWeights(line.front(), 0);
    line.erase(line.begin());
  });
  CHECK(asked.size() == 40);
  for (const auto& [block, times] : asked) CHECK((times == 1));
}

TEST_CASE("of what has no answer a shard is asked, and is sent what it says is missing", "[client][line]") {
  SessionBench bench(Mode::kSync, 8);
  const Work work = bench.Join({0}).BeginWork();
  bench.PushAll(work, {0, 1});
  bench.Forget();
  bench.Tick(seconds(2));
  CHECK(bench.Sent<capstan::Push>() == 0);
  const CoverageQuery query = bench.TakeFor<CoverageQuery>(0).at(0);
  CHECK(query.step == Step{0});
  CHECK(query.nodes == std::vector<StagedNode>{{6, {0, 1}}, {4, {0, 1}}, {2, {0, 1}}, {0, {0, 1}}});
  Staged answer = bench.MakeStaged(0, 0, {{6, {0, 1}}});
  answer.answers = query.question;
  answer.missing = {{2, {0, 1}}};  // nothing of 4 and 0 yet: their acknowledgement comes
  bench.FromShard(0, answer);
  const std::vector<capstan::Push> again = bench.TakeFor<capstan::Push>(0);
  REQUIRE(again.size() == 1);
  CHECK(again[0].block == 2);
  bench.FromShard(0, answer);  // a late copy does not cover pushes sent after the question
  CHECK(bench.TakeFor<capstan::Push>(0).empty());
  CHECK(bench.session->unstaged_pushes() == 7);
}

TEST_CASE("questions become rarer while nothing comes, and go on", "[client][line]") {
  SessionBench bench;
  const Work work = bench.Join({0}).BeginWork();
  bench.Push(work, {0, 1}, 0);
  std::vector<Instant> asked;
  Pass(&bench, bench.now + seconds(60), [&] {
    if (!bench.TakeFor<CoverageQuery>(0).empty()) asked.push_back(bench.now);
  });
  REQUIRE(asked.size() >= 20);
  CHECK(asked.size() <= 40);
  CHECK(bench.Sent<capstan::Push>() == 1);
}

TEST_CASE("blocks that a shard has answered and that are not here are asked for again", "[client][line]") {
  SessionBench bench(Mode::kSync, 8);
  bench.Join({0}).Ready();
  bench.NothingCovered(0);
  bench.SendWeights(0, 0);
  const std::size_t asked = bench.TakeFor<Pull>(0).size();
  CHECK(asked == 2);
  bench.Tick(seconds(2));
  CHECK(bench.TakeFor<Pull>(0).empty());
  Staged answer = bench.MakeStaged(0, 0);
  answer.answers = bench.TakeFor<CoverageQuery>(0).back().question;
  answer.pull_waits = true;  // it is not lost
  bench.FromShard(0, answer);
  CHECK(bench.TakeFor<Pull>(0).empty());
  answer.pull_waits = false;
  bench.FromShard(0, answer);
  CHECK(bench.TakeFor<Pull>(0).at(0).blocks == Blocks{2, 4, 6});
}

TEST_CASE("without global steps a shard's credit bounds the pushes that have no answer", "[client][line][async]") {
  SessionBench bench(Mode::kAsync, 4000);
  bench.Join({0}).Ready();
  for (ShardIndex shard : {0U, 1U}) {
    Staged clocks = bench.MakeCoverage(shard, 0);
    clocks.clocks = {0, 0, 0, 0};
    bench.FromShard(shard, clocks);
  }
  bench.SendAllWeights(0);
  const Work work = bench.Events<Session::WorkReady>().at(0).work;
  bench.Forget();
  bench.PushAll(work, {0, 1});
  std::vector<capstan::Push> sent = bench.TakeFor<capstan::Push>(0);
  CHECK(sent.size() == 16);
  Staged staged = bench.MakeStaged(0, 1);
  staged.credit = 4;
  for (std::size_t i = 0; i < 13; ++i) staged.held.push_back({sent[i].block, {0, 1}});
  bench.FromShard(0, staged);
  CHECK(bench.TakeFor<capstan::Push>(0).size() == 1);  // with the three that have none
}

}  // namespace
}  // namespace capstan::client
