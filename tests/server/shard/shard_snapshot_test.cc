// Which snapshots a shard retains, when it reports them, and where it begins when it must go back.
#include "common/wire/messages/commit.h"
#include "common/wire/messages/hello.h"
#include "common/wire/messages/reset.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/snapshot_done.h"
#include "common/wire/messages/weights.h"
#include "tests/catch.h"
#include "tests/server/shard/shard_bench.h"

namespace capstan::server {
namespace {

using std::chrono::seconds;

SnapshotId Id(std::uint64_t generation, std::uint64_t version) { return {Generation{generation}, Version{version}}; }

ShardBenchOptions Async(std::vector<std::int64_t> tensors = {4, 4}) {
  return {.mode = Mode::kAsync, .slots = 2, .tensors = std::move(tensors), .optimizer = OptimizerKind::kMomentum};
}
ShardBenchOptions With(ShardBenchOptions options, const MemorySnapshotStore& found) {
  options.found = &found;
  return options;
}

float FirstOf(const MemorySnapshotStore& disk, SnapshotId id, ShardIndex part, BlockIndex block,
              std::uint32_t array = 0) {
  std::array<float, 4> values{};
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(values));
  REQUIRE(disk.ReadArray(id, part, block, array, bytes).ok());
  return values[0];
}

// Does a whole step whose Commit requests a snapshot of the resulting version.
void KeepStep(ShardBench* bench, std::uint64_t step, float value) {
  bench->CompleteStep(step, value);
  bench->Forget();
  bench->FromCoordinator(bench->MakeSnapshotCommit(step));
}
void DoStep(ShardBench* bench, std::uint64_t step, float value) {
  bench->CompleteStep(step, value);
  bench->Commits(step);
  bench->Forget();
}

SnapshotDone DoneOf(ShardBench* bench) {
  const std::vector<SnapshotDone> done = bench->Take<SnapshotDone>(kCoordinator);
  REQUIRE(done.size() == 1);
  return done[0];
}

// ---- retaining ------------------------------------------------------------------------------------------------------

TEST_CASE("a Commit pins exactly the version it publishes, while later steps go on", "[server][snapshot]") {
  ShardBench bench;
  bench.Start().HoldDisk();
  KeepStep(&bench, 0, 1.0F);
  CHECK(bench.Take<Committed>(kCoordinator).size() == 1);
  CHECK(bench.Take<SnapshotDone>(kCoordinator).empty());  // the disk is still writing
  DoStep(&bench, 1, 5.0F);
  DoStep(&bench, 2, 5.0F);
  CHECK(bench.WeightOf(0) == -11.0F);
  bench.LetDiskGo();
  const SnapshotDone done = DoneOf(&bench);
  CHECK(done.failure.empty());
  CHECK(done.generation == Generation{1});
  CHECK(done.incarnation == Incarnation{7});
  CHECK(done.version == Version{1});
  CHECK(done.bytes == 10 * sizeof(float));
  CHECK(done.parameters.updates == 1);
  CHECK(done.parameters.learning_rate == 1.0F);
  REQUIRE(bench.disk.List() == std::vector<SnapshotPart>{{Id(1, 1), 0, done.digest}});
  for (BlockIndex block : {0U, 1U}) CHECK(FirstOf(bench.disk, Id(1, 1), 0, block) == -1.0F);
  CHECK(bench.WeightOf(0) == -11.0F);
}

TEST_CASE("async: what is kept is one moment of every block, although they are updated in place",
          "[server][snapshot][async]") {
  ShardBench bench(Async());
  bench.Start();
  bench.Stage(1, 0, kLeaf0, 1, 1.0F);
  bench.FromWorker(bench.MakeEnd(1, 0, 5));
  bench.HoldDisk();
  bench.FromCoordinator(bench.MakePin(0));
  const std::byte* const place = bench.shard->store().Weights(0).data;
  bench.Stage(2, 0, kLeaf0, 1, 1.0F);
  bench.Stage(1, 1, kLeaf1, 1, 7.0F);
  bench.FromWorker(bench.MakeEnd(2, 0));
  CHECK(bench.shard->store().Weights(0).data != place);  // the pinned one is not changed
  bench.LetDiskGo();
  CHECK(DoneOf(&bench).failure.empty());
  CHECK(FirstOf(bench.disk, Id(1, 0), 0, 0) == -1.0F);
  CHECK(FirstOf(bench.disk, Id(1, 0), 0, 0, 1) == 1.0F);  // the momentum
  CHECK(FirstOf(bench.disk, Id(1, 0), 0, 1) == 0.0F);
  const SnapshotHeader header = bench.disk.ReadHeader(Id(1, 0), 0).value();
  CHECK(header.blocks[0].updates == 1);
  CHECK(header.blocks[0].last == std::vector<std::uint64_t>{1, 0});
  CHECK(header.blocks[1].last == std::vector<std::uint64_t>{0, 0});
  CHECK(header.ended == std::vector<std::uint64_t>{1, 0});
  REQUIRE(header.reports.size() == 1);
  CHECK(header.reports[0].report.samples == 5);
  CHECK(bench.WeightOf(0) == -2.5F);  // 1, then 1 + 0.5
}

TEST_CASE("that a version is kept is said until it is settled, and not after", "[server][snapshot]") {
  ShardBench bench;
  bench.Start();
  KeepStep(&bench, 0, 1.0F);
  const SnapshotDone first = DoneOf(&bench);
  for (int i = 0; i < 3; ++i) {
    bench.Tick(seconds(7));
    CHECK(DoneOf(&bench).digest == first.digest);
  }
  bench.FromCoordinator(bench.MakeKept({}, {}));  // of nothing yet
  bench.Tick(seconds(7));
  CHECK(DoneOf(&bench).digest == first.digest);
  bench.FromCoordinator(bench.MakeKept({Id(1, 1)}, Id(1, 1)));
  bench.Tick(seconds(7));
  bench.Tick(seconds(7));
  CHECK(bench.Take<SnapshotDone>(kCoordinator).empty());
  CHECK(bench.disk.List().size() == 1);
}

TEST_CASE("a Pin is answered again when its version is kept, and carried out once", "[server][snapshot]") {
  ShardBench bench;
  bench.Start();
  DoStep(&bench, 0, 1.0F);
  bench.HoldDisk();
  bench.FromCoordinator(bench.MakePin(1));
  bench.FromCoordinator(bench.MakePin(1));  // a second Pin, while the snapshot is being written
  CHECK(bench.Silent());
  bench.LetDiskGo();
  const SnapshotDone done = DoneOf(&bench);
  bench.FromCoordinator(bench.MakePin(1));
  CHECK(DoneOf(&bench).digest == done.digest);
  bench.FromCoordinator(bench.MakeKept({Id(1, 1)}, Id(1, 1)));
  bench.FromCoordinator(bench.MakePin(1));  // settled, but this coordinator does not know it
  CHECK(DoneOf(&bench).digest == done.digest);
  CHECK(bench.disk.List().size() == 1);
}

TEST_CASE("a version that steps have passed, or that is not there yet, is not kept", "[server][snapshot]") {
  ShardBench bench;
  bench.Start();
  for (std::uint64_t step : {0U, 1U, 2U}) DoStep(&bench, step, 1.0F);
  bench.FromCoordinator(bench.MakePin(1));
  const SnapshotDone none = DoneOf(&bench);
  CHECK(none.version == Version{1});
  CHECK(!none.failure.empty());
  bench.FromCoordinator(bench.MakePin(4));  // its Commit is in flight
  Pin other = bench.MakePin(3);
  other.generation = Generation{2};
  bench.FromCoordinator(other);
  CHECK(bench.Silent());
  CHECK(bench.disk.List().empty());
  bench.Tick(seconds(7));
  CHECK(bench.Take<SnapshotDone>(kCoordinator).empty());  // an impossible snapshot is reported once
}

TEST_CASE("a version that cannot be written is reported, and the next one is written", "[server][snapshot]") {
  ShardBench bench;
  bench.Start();
  bench.disk.FailWrites(Unreachable("the disk is full"));
  KeepStep(&bench, 0, 1.0F);
  const SnapshotDone failed = DoneOf(&bench);
  CHECK(failed.version == Version{1});
  CHECK(failed.failure == "the disk is full");
  CHECK(bench.disk.List().empty());
  bench.Tick(seconds(7));
  CHECK(DoneOf(&bench).failure == failed.failure);
  bench.FromCoordinator(bench.MakeKept({}, Id(1, 1)));
  bench.disk.FailWrites({});
  KeepStep(&bench, 1, 1.0F);
  const SnapshotDone done = DoneOf(&bench);
  CHECK(done.version == Version{2});
  CHECK(done.failure.empty());
  CHECK(bench.disk.List().size() == 1);
}

TEST_CASE("one version is written at a time; another one asked for meanwhile is refused at once",
          "[server][snapshot]") {
  ShardBench bench;
  bench.Start().HoldDisk();
  KeepStep(&bench, 0, 1.0F);
  bench.Forget();
  KeepStep(&bench, 1, 1.0F);
  const SnapshotDone refused = DoneOf(&bench);
  CHECK(refused.version == Version{2});
  CHECK(!refused.failure.empty());
  bench.LetDiskGo();
  CHECK(bench.disk.List().at(0).id == Id(1, 1));
}

TEST_CASE("what is older than the kept ones, or given up, is deleted, and nothing newer", "[server][snapshot]") {
  ShardBench bench;
  bench.Start();
  for (std::uint64_t step = 0; step < 5; ++step) KeepStep(&bench, step, 1.0F);
  const auto versions = [&] {
    std::vector<std::uint64_t> list;
    for (const SnapshotPart& part : bench.disk.List()) list.push_back(part.id.version.value);
    return list;
  };
  using Versions = std::vector<std::uint64_t>;
  CHECK(versions() == Versions{1, 2, 3, 4, 5});
  SnapshotsKept other = bench.MakeKept({}, Id(1, 5));
  other.generation = Generation{2};
  bench.FromCoordinator(other);
  CHECK(versions() == Versions{1, 2, 3, 4, 5});
  bench.FromCoordinator(bench.MakeKept({Id(1, 2), Id(1, 4)}, Id(1, 4)));
  CHECK(versions() == Versions{2, 4, 5});  // the manifest of 5 may be in flight
  bench.FromCoordinator(bench.MakeKept({Id(1, 2), Id(1, 4)}, Id(1, 4)));
  CHECK(versions() == Versions{2, 4, 5});
  bench.FromCoordinator(bench.MakeKept({Id(1, 2), Id(1, 4)}, Id(1, 5)));  // given up
  CHECK(versions() == Versions{2, 4});
  bench.Forget();
  bench.FromCoordinator(bench.MakePin(5));
  CHECK(!DoneOf(&bench).failure.empty());
  CHECK(bench.disk.life().newest_kept == Id(1, 4));
  bench.Forget();
  bench.Tick(seconds(3));
  CHECK(bench.Take<Hello>(kCoordinator).at(0).newest_kept == Id(1, 4));
}

TEST_CASE("the newest version that was ever kept stays, whatever a coordinator says of it", "[server][snapshot]") {
  ShardBench bench;
  bench.Start();
  for (std::uint64_t step = 0; step < 3; ++step) KeepStep(&bench, step, 1.0F);
  const std::vector<SnapshotPart> parts = bench.disk.List();
  bench.FromCoordinator(bench.MakeKept({Id(1, 1), Id(1, 2)}, Id(1, 2)));
  REQUIRE(bench.disk.List().size() == 3);
  bench.FromCoordinator(bench.MakeKept({}, Id(1, 2)));
  CHECK(bench.disk.List().at(0) == parts[1]);
  bench.FromCoordinator(bench.MakeKept({Id(1, 1)}, Id(9, 9)));  // an old list
  bench.FromCoordinator(bench.MakeKept({}, Id(9, 9)));
  CHECK(bench.disk.List() == std::vector<SnapshotPart>{parts[1]});

  // If the newest snapshot is missing, for example because it was found damaged, the newest one before it stays.
  MemorySnapshotStore older;
  older.AddPartsOf(bench.disk);
  ShardBench again(With({}, older));
  again.FromCoordinator(again.MakeReset(2));
  again.generation = Generation{2};
  again.FromCoordinator(again.MakeKept({Id(1, 5)}, Id(1, 5)));
  CHECK(again.disk.List() == std::vector<SnapshotPart>{parts[1]});
  KeepStep(&again, 0, 1.0F);
  again.FromCoordinator(again.MakeKept({Id(2, 1)}, Id(2, 1)));
  REQUIRE(again.disk.List().size() == 1);
  CHECK(again.disk.List()[0].id == Id(2, 1));
}

TEST_CASE("parts of an older generation that are not kept go when the new one keeps something", "[server][snapshot]") {
  ShardBench bench;
  bench.Start();
  for (std::uint64_t step = 0; step < 2; ++step) KeepStep(&bench, step, 1.0F);
  const std::vector<SnapshotPart> parts = bench.disk.List();
  bench.FromCoordinator(bench.MakeResetTo(2, {parts[0]}));
  bench.generation = Generation{2};
  CHECK(bench.disk.List().size() == 2);
  bench.FromCoordinator(bench.MakeKept({Id(1, 1)}, Id(1, 1)));
  CHECK(bench.disk.List() == std::vector<SnapshotPart>{parts[0]});
}

TEST_CASE("what is in the directory is said in Hello, as is the job it belongs to", "[server][snapshot]") {
  ShardBench first;
  first.Start();
  KeepStep(&first, 0, 1.0F);
  ShardBench second(With({}, first.disk));
  second.Tick();
  const Hello hello = second.Take<Hello>(kCoordinator).at(0);
  CHECK(hello.parts == first.disk.List());
  CHECK(!hello.serving);
  first.FromCoordinator(Ping{Term{1}, Generation{1}});
  CHECK(first.Take<Hello>(kCoordinator).at(0).parts == first.disk.List());
  CHECK(first.Take<Hello>(kCoordinator).empty());
  CHECK(first.disk.life().job == JobId{1, 2});
  CHECK(first.disk.life().generation == Generation{1});
}

// ---- going back -----------------------------------------------------------------------------------------------------

TEST_CASE("a shard that goes back has the weights, optimizer state and step it had, and the same bits after",
          "[server][snapshot]") {
  const ShardBenchOptions options{.optimizer = OptimizerKind::kMomentum};
  ShardBench undisturbed(options);
  undisturbed.Start();
  KeepStep(&undisturbed, 0, 1.0F);
  const std::uint64_t digest = undisturbed.shard->store().Digest();
  DoStep(&undisturbed, 1, 3.0F);

  ShardBench bench(With(options, undisturbed.disk));
  bench.FromCoordinator(bench.MakeResetTo(2, bench.disk.List()));
  bench.generation = Generation{2};
  const ResetDone done = bench.Take<ResetDone>(kCoordinator).at(0);
  CHECK(done.generation == Generation{2});
  CHECK(bench.shard->store().Digest() == digest);
  CHECK(bench.shard->version() == Version{1});
  CHECK(bench.shard->serving());
  bench.FromWorker(bench.MakePull(1, {0, 1, 2}));
  CHECK(bench.Take<Weights>().size() == 3);
  CHECK(bench.WeightOf(0) == -1.0F);
  DoStep(&bench, 1, 3.0F);
  CHECK(bench.WeightOf(0) == -4.5F);  // with half of the first step's momentum
  CHECK(bench.shard->store().Digest() == undisturbed.shard->store().Digest());
  CHECK(bench.shard->version() == Version{2});
}

TEST_CASE("a shard in the middle of a step goes back, and forgets what it had of it", "[server][snapshot]") {
  ShardBench bench({.optimizer = OptimizerKind::kMomentum});
  bench.Start();
  KeepStep(&bench, 0, 1.0F);
  const std::uint64_t digest = bench.shard->store().Digest();
  DoStep(&bench, 1, 9.0F);
  bench.Stage(2, 0, kLeaf0, 1, 9.0F);
  bench.FromCoordinator(bench.MakeResetTo(2, bench.disk.List()));
  bench.generation = Generation{2};
  CHECK(bench.shard->store().Digest() == digest);
  CHECK(bench.shard->engine().staged_bytes() == 0);
  CHECK(bench.shard->last_commit() == nullptr);
  CHECK(bench.Coverage(1).held.empty());
  Commit late = bench.MakeCommit(1);
  late.generation = Generation{1};
  bench.FromCoordinator(late);
  CHECK(bench.shard->version() == Version{1});
}

TEST_CASE("async: a shard that goes back knows which pushes and ends are in its weights", "[server][snapshot][async]") {
  ShardBench first(Async());
  first.Start();
  for (std::uint64_t k : {1U, 2U}) {
    for (BlockIndex block : {0U, 1U}) first.Stage(k, block, kLeaf0, 1, 1.0F);
    first.FromWorker(first.MakeEnd(k, 0, 10 + k));
  }
  first.Stage(1, 0, kLeaf1, 1, 1.0F);
  first.FromWorker(first.MakeEnd(1, 1, 30));
  StepParameters parameters;
  parameters.learning_rate = 1.0F;
  first.FromCoordinator(Rates{Term{1}, Generation{1}, Step{1}, parameters});  // reports of step 1 are counted
  first.FromCoordinator(first.MakePin(1));

  ShardBench bench(With(Async(), first.disk));
  bench.FromCoordinator(bench.MakeResetTo(2, bench.disk.List()));
  bench.generation = Generation{2};
  CHECK(bench.shard->store().Digest() == first.shard->store().Digest());
  CHECK(bench.shard->version() == Version{1});
  CHECK(bench.shard->engine().updates(0) == 3);
  CHECK(bench.shard->engine().updates(1) == 2);
  CHECK(bench.Coverage(0).clocks == std::vector<std::uint64_t>{2, 0});
  bench.Forget();
  bench.Tick(seconds(1));
  const Progress progress = bench.Take<Progress>(kCoordinator).at(0);
  CHECK(progress.clocks == std::vector<std::uint64_t>{2, 0});
  REQUIRE(progress.reports.size() == 1);
  CHECK(progress.reports[0].step == Step{2});
  CHECK(progress.reports[0].report.samples == 12);
  const float before = bench.WeightOf(0);
  bench.Stage(2, 0, kLeaf0, 1, 9.0F);  // sent again by a worker that does not know it
  bench.Stage(1, 0, kLeaf1, 1, 9.0F);
  CHECK(bench.WeightOf(0) == before);
  CHECK(bench.metrics->pushes_duplicate.value() == 2);
  for (ShardBench* one : {&first, &bench}) {
    one->Stage(3, 0, kLeaf0, 1, 2.0F);
    one->Stage(1, 1, kLeaf1, 1, 2.0F);
  }
  CHECK(bench.shard->store().Digest() == first.shard->store().Digest());
}

TEST_CASE("a damaged block is not served: the Reset is answered with its name, and an older snapshot is",
          "[server][snapshot]") {
  ShardBench first;
  first.Start();
  KeepStep(&first, 0, 1.0F);
  KeepStep(&first, 1, 1.0F);
  REQUIRE(first.disk.DamageNewest());
  ShardBench bench(With({}, first.disk));
  const std::vector<SnapshotPart> parts = bench.disk.List();
  bench.FromCoordinator(bench.MakeResetTo(2, {parts[1]}));
  const ResetBad bad = bench.Take<ResetBad>(kCoordinator).at(0);
  CHECK(bad.generation == Generation{2});
  CHECK(bad.incarnation == Incarnation{7});
  CHECK(bad.reason.find("block 0") != std::string::npos);
  CHECK(!bench.shard->serving());
  CHECK(bench.Take<ResetDone>(kCoordinator).empty());
  bench.generation = Generation{2};
  bench.FromWorker(bench.MakePull(2, {0}));
  CHECK(bench.Refused(Code::kBusy));
  bench.FromCoordinator(bench.MakeResetTo(2, {parts[1]}));  // it is asked again, and still bad
  CHECK(bench.Take<ResetBad>(kCoordinator).size() == 1);
  bench.FromCoordinator(bench.MakeResetTo(3, {parts[0]}));
  CHECK(bench.Take<ResetDone>(kCoordinator).size() == 1);
  CHECK(bench.WeightOf(0) == -1.0F);
}

TEST_CASE("nothing is served, and no Reset answered, before the disk has read and remembered", "[server][snapshot]") {
  ShardBench first;
  first.Start();
  KeepStep(&first, 0, 1.0F);
  ShardBench bench(With({}, first.disk));
  bench.HoldDisk();
  for (int i = 0; i < 3; ++i) bench.FromCoordinator(bench.MakeResetTo(2, bench.disk.List()));
  bench.generation = Generation{2};
  CHECK(bench.Silent());
  CHECK(!bench.shard->serving());
  bench.FromWorker(bench.MakePull(1, {0}));
  CHECK(bench.Refused(Code::kBusy));
  bench.FromCoordinator(bench.MakePin(1));
  bench.Commits(1);
  bench.Tick(seconds(1));
  CHECK(bench.Silent());
  bench.FromCoordinator(Ping{Term{1}, Generation{2}});
  CHECK(!bench.Take<Hello>(kCoordinator).at(0).serving);
  CHECK(bench.disk.life().generation == Generation{0});
  bench.LetDiskGo();
  CHECK(bench.Take<ResetDone>(kCoordinator).size() == 1);  // read once, although asked three times
  CHECK(bench.shard->serving());
  CHECK(bench.disk.life().generation == Generation{2});
}

TEST_CASE("a shard that cannot remember its generation does not serve it", "[server][snapshot]") {
  ShardBench bench;
  bench.disk.FailRemember(Unreachable("the disk is full"));
  bench.FromCoordinator(bench.MakeReset());
  CHECK(bench.Silent());
  CHECK(!bench.shard->serving());
  REQUIRE(!bench.notices().empty());
  CHECK(bench.notices().back().severity == Severity::kError);
  CHECK(bench.notices().back().text.find("the disk is full") != std::string::npos);
}

TEST_CASE("a shard whose disk is full writes down who it is when there is room, and then answers Reset",
          "[server][snapshot]") {
  ShardBench bench;
  bench.disk.FailRemember(Status(Code::kBusy, "no space left on device"));
  bench.FromCoordinator(bench.MakeReset());
  for (int i = 0; i < 3; ++i) bench.Tick(std::chrono::seconds(10));
  CHECK(bench.Take<ResetDone>(kCoordinator).empty());
  bench.disk.FailRemember({});
  bench.Tick(std::chrono::seconds(10));
  CHECK(bench.Take<ResetDone>(kCoordinator).size() == 1);
  CHECK(bench.disk.life().generation == Generation{1});
}

TEST_CASE("a Reset ends the writing of a version: nothing of it is kept, or said", "[server][snapshot]") {
  ShardBench bench;
  bench.Start();
  KeepStep(&bench, 0, 1.0F);
  const std::vector<SnapshotPart> parts = bench.disk.List();
  bench.HoldDisk();
  KeepStep(&bench, 1, 1.0F);
  bench.Forget();
  bench.FromCoordinator(bench.MakeResetTo(2, parts));
  bench.LetDiskGo();
  CHECK(bench.Take<SnapshotDone>(kCoordinator).empty());
  CHECK(bench.Take<ResetDone>(kCoordinator).size() == 1);
  CHECK(bench.disk.List() == parts);
  bench.generation = Generation{2};
  bench.Tick(seconds(7));
  CHECK(bench.Take<SnapshotDone>(kCoordinator).empty());
  KeepStep(&bench, 1, 1.0F);  // the same version on another timeline
  CHECK(DoneOf(&bench).generation == Generation{2});
  CHECK(bench.disk.List().size() == 2);
}

TEST_CASE("of two Resets while the disk is busy the newer one counts", "[server][snapshot]") {
  ShardBench first;
  first.Start();
  KeepStep(&first, 0, 1.0F);
  KeepStep(&first, 1, 1.0F);
  ShardBench bench(With({}, first.disk));
  const std::vector<SnapshotPart> parts = bench.disk.List();
  bench.HoldDisk();
  bench.FromCoordinator(bench.MakeResetTo(2, {parts[1]}));
  bench.FromCoordinator(bench.MakeResetTo(3, {parts[0]}));
  bench.FromCoordinator(bench.MakeResetTo(2, {parts[1]}));  // late
  bench.LetDiskGo();
  const std::vector<ResetDone> done = bench.Take<ResetDone>(kCoordinator);
  REQUIRE(done.size() == 1);
  CHECK(done[0].generation == Generation{3});
  CHECK(bench.shard->version() == Version{1});
  CHECK(bench.WeightOf(0) == -1.0F);
}

TEST_CASE("a Reset that makes no sense does not disturb the one that is being carried out", "[server][snapshot]") {
  ShardBench first;
  first.Start();
  KeepStep(&first, 0, 1.0F);
  ShardBench bench(With({}, first.disk));
  bench.HoldDisk();
  bench.FromCoordinator(bench.MakeResetTo(2, bench.disk.List()));
  Reset bad = bench.MakeResetTo(3, bench.disk.List());
  bad.slot_count = 0;
  bench.FromCoordinator(bad);
  CHECK(bench.Take<ResetBad>(kCoordinator).size() == 1);
  bench.LetDiskGo();
  CHECK(bench.Take<ResetDone>(kCoordinator).at(0).generation == Generation{2});
  CHECK(bench.WeightOf(0) == -1.0F);
}

}  // namespace
}  // namespace capstan::server
