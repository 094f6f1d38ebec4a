// Which snapshots a shard retains, when it reports them, and where it begins when it must go back.
#include "common/wire/messages/commit.h"
#include "common/wire/messages/hello.h"
#include "common/wire/messages/reset.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/snapshot_done.h"
#include "common/wire/messages/weights.h"
#include "server/shard/shard_memory.h"
#include "tests/catch.h"
#include "tests/server/shard/shard_harness.h"

namespace capstan::server {
namespace {

using Catch::Matchers::Contains;
using std::chrono::seconds;

SnapshotId Id(std::uint64_t generation, std::uint64_t version) { return {Generation{generation}, Version{version}}; }

ShardHarnessOptions AsyncMomentum(std::vector<std::int64_t> tensors = {4, 4}) {
  return {.mode = Mode::kAsync, .slots = 2, .tensors = std::move(tensors), .optimizer = OptimizerKind::kMomentum};
}
ShardHarnessOptions With(ShardHarnessOptions options, const MemorySnapshotStore& found) {
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
void KeepStep(ShardHarness* harness, std::uint64_t step, float value) {
  harness->CompleteStep(step, value);
  harness->Forget();
  harness->FromCoordinator(harness->MakeSnapshotCommit(step));
}
void DoStep(ShardHarness* harness, std::uint64_t step, float value) {
  harness->CompleteStep(step, value);
  harness->Commits(step);
  harness->Forget();
}

SnapshotDone DoneOf(ShardHarness* harness) {
  const std::vector<SnapshotDone> done = harness->Take<SnapshotDone>(kCoordinator);
  REQUIRE(done.size() == 1);
  return done[0];
}

// ---- retaining ------------------------------------------------------------------------------------------------------

TEST_CASE("a Commit pins exactly the version it publishes, while later steps go on", "[server][snapshot]") {
  ShardHarness harness;
  harness.Start().HoldDisk();
  KeepStep(&harness, 0, 1.0F);
  CHECK(harness.Take<Committed>(kCoordinator).size() == 1);
  CHECK(harness.Take<SnapshotDone>(kCoordinator).empty());  // the disk is still writing
  DoStep(&harness, 1, 5.0F);
  DoStep(&harness, 2, 5.0F);
  CHECK(harness.WeightOf(0) == -11.0F);
  harness.LetDiskGo();
  const SnapshotDone done = DoneOf(&harness);
  CHECK(done.failure.empty());
  CHECK(done.generation == Generation{1});
  CHECK(done.incarnation == Incarnation{7});
  CHECK(done.version == Version{1});
  CHECK(done.bytes == 10 * sizeof(float));
  CHECK(done.parameters.updates == 1);
  CHECK(done.parameters.learning_rate == 1.0F);
  REQUIRE(harness.disk.List() == std::vector<SnapshotPart>{{Id(1, 1), 0, done.digest}});
  for (BlockIndex block : {0U, 1U}) CHECK(FirstOf(harness.disk, Id(1, 1), 0, block) == -1.0F);
  CHECK(harness.WeightOf(0) == -11.0F);
}

TEST_CASE("a shard of a job with snapshots has the memory for one from the beginning", "[server][snapshot][memory]") {
  const bool snapshots = GENERATE(false, true);
  ShardHarness harness({.optimizer = OptimizerKind::kMomentum, .snapshots = snapshots});
  harness.Start().HoldDisk();
  const auto memory = [&harness] {
    harness.Tick();
    return harness.metrics->pool_used_bytes.value() + harness.metrics->pool_free_bytes.value();
  };
  const double before = memory();
  KeepStep(&harness, 0, 1.0F);
  DoStep(&harness, 1, 5.0F);
  DoStep(&harness, 2, 5.0F);  // the disk is still writing
  CHECK((memory() == before) == snapshots);

  ShardOptions options;
  options.job.optimizer = {.kind = OptimizerKind::kAdam};
  options.job.snapshots = snapshots;
  CHECK(CountShardMemory(options, 1000, 1).bytes_per_element == (snapshots ? 40 : 28));
}

TEST_CASE("async: what is kept is one moment of every block, although they are updated in place",
          "[server][snapshot][async]") {
  ShardHarness harness(AsyncMomentum());
  harness.Start();
  harness.Stage(1, 0, kLeaf0, 1, 1.0F);
  harness.FromWorker(harness.MakeEnd(1, 0, 5));
  harness.HoldDisk();
  harness.FromCoordinator(harness.MakePin(0));
  const std::byte* const place = harness.shard->store().Weights(0).data;
  harness.Stage(2, 0, kLeaf0, 1, 1.0F);
  harness.Stage(1, 1, kLeaf1, 1, 7.0F);
  harness.FromWorker(harness.MakeEnd(2, 0));
  CHECK(harness.shard->store().Weights(0).data != place);  // the pinned one is not changed
  harness.LetDiskGo();
  CHECK(DoneOf(&harness).failure.empty());
  CHECK(FirstOf(harness.disk, Id(1, 0), 0, 0) == -1.0F);
  CHECK(FirstOf(harness.disk, Id(1, 0), 0, 0, 1) == 1.0F);  // the momentum
  CHECK(FirstOf(harness.disk, Id(1, 0), 0, 1) == 0.0F);
  const SnapshotHeader header = *harness.disk.ReadHeader(Id(1, 0), 0).value();
  CHECK(header.blocks[0].updates == 1);
  CHECK(header.blocks[0].last == std::vector<SequenceNumber>{{1}, {0}});
  CHECK(header.blocks[1].last == std::vector<SequenceNumber>{{0}, {0}});
  CHECK(header.ended == std::vector<SequenceNumber>{{1}, {0}});
  REQUIRE(header.reports.size() == 1);
  CHECK(header.reports[0].report.samples == 5);
  CHECK(harness.WeightOf(0) == -2.5F);  // 1, then 1 + 0.5
}

TEST_CASE("that a version is kept is said until it is settled, and not after", "[server][snapshot]") {
  ShardHarness harness;
  harness.Start();
  KeepStep(&harness, 0, 1.0F);
  const SnapshotDone first = DoneOf(&harness);
  for (int i = 0; i < 3; ++i) {
    harness.Tick(seconds(7));
    CHECK(DoneOf(&harness).digest == first.digest);
  }
  harness.FromCoordinator(harness.MakeRetained({}, {}));  // it names no snapshot
  harness.Tick(seconds(7));
  CHECK(DoneOf(&harness).digest == first.digest);
  harness.FromCoordinator(harness.MakeRetained({Id(1, 1)}, Id(1, 1)));
  harness.Tick(seconds(7));
  harness.Tick(seconds(7));
  CHECK(harness.Take<SnapshotDone>(kCoordinator).empty());
  CHECK(harness.disk.List().size() == 1);
}

TEST_CASE("a Pin is answered again when its version is kept, and carried out once", "[server][snapshot]") {
  ShardHarness harness;
  harness.Start();
  DoStep(&harness, 0, 1.0F);
  harness.HoldDisk();
  harness.FromCoordinator(harness.MakePin(1));
  harness.FromCoordinator(harness.MakePin(1));  // a second Pin, while the snapshot is being written
  CHECK(harness.Silent());
  harness.LetDiskGo();
  const SnapshotDone done = DoneOf(&harness);
  harness.FromCoordinator(harness.MakePin(1));
  CHECK(DoneOf(&harness).digest == done.digest);
  harness.FromCoordinator(harness.MakeRetained({Id(1, 1)}, Id(1, 1)));
  harness.FromCoordinator(harness.MakePin(1));  // settled, but this coordinator does not know it
  CHECK(DoneOf(&harness).digest == done.digest);
  CHECK(harness.disk.List().size() == 1);
}

TEST_CASE("a version that steps have passed, or that is not there yet, is not kept", "[server][snapshot]") {
  ShardHarness harness;
  harness.Start();
  for (std::uint64_t step : {0U, 1U, 2U}) DoStep(&harness, step, 1.0F);
  harness.FromCoordinator(harness.MakePin(1));
  const SnapshotDone none = DoneOf(&harness);
  CHECK(none.version == Version{1});
  CHECK(!none.failure.empty());
  harness.FromCoordinator(harness.MakePin(4));  // its Commit is in flight
  Pin other = harness.MakePin(3);
  other.generation = Generation{2};
  harness.FromCoordinator(other);
  CHECK(harness.Silent());
  CHECK(harness.disk.List().empty());
  harness.Tick(seconds(7));
  CHECK(harness.Take<SnapshotDone>(kCoordinator).empty());  // an impossible snapshot is reported once
}

TEST_CASE("a version that cannot be written is reported, and the next one is written", "[server][snapshot]") {
  ShardHarness harness;
  harness.Start();
  harness.disk.FailWrites(Unreachable("the disk is full"));
  KeepStep(&harness, 0, 1.0F);
  const SnapshotDone failed = DoneOf(&harness);
  CHECK(failed.version == Version{1});
  CHECK(failed.failure == "the disk is full");
  CHECK(harness.disk.List().empty());
  harness.Tick(seconds(7));
  CHECK(DoneOf(&harness).failure == failed.failure);
  harness.FromCoordinator(harness.MakeRetained({}, Id(1, 1)));
  harness.disk.FailWrites({});
  KeepStep(&harness, 1, 1.0F);
  const SnapshotDone done = DoneOf(&harness);
  CHECK(done.version == Version{2});
  CHECK(done.failure.empty());
  CHECK(harness.disk.List().size() == 1);
}

TEST_CASE("one version is written at a time; another one asked for meanwhile is refused at once",
          "[server][snapshot]") {
  ShardHarness harness;
  harness.Start().HoldDisk();
  KeepStep(&harness, 0, 1.0F);
  harness.Forget();
  KeepStep(&harness, 1, 1.0F);
  const SnapshotDone refused = DoneOf(&harness);
  CHECK(refused.version == Version{2});
  CHECK(!refused.failure.empty());
  harness.LetDiskGo();
  CHECK(harness.disk.List().at(0).id == Id(1, 1));
}

TEST_CASE("what is older than the kept ones, or given up, is deleted, and nothing newer", "[server][snapshot]") {
  ShardHarness harness;
  harness.Start();
  for (std::uint64_t step = 0; step < 5; ++step) KeepStep(&harness, step, 1.0F);
  const auto versions = [&] {
    std::vector<std::uint64_t> list;
    for (const SnapshotPart& part : harness.disk.List()) list.push_back(part.id.version.value);
    return list;
  };
  using Versions = std::vector<std::uint64_t>;
  CHECK(versions() == Versions{1, 2, 3, 4, 5});
  RetainedSnapshots other = harness.MakeRetained({}, Id(1, 5));
  other.generation = Generation{2};
  harness.FromCoordinator(other);
  CHECK(versions() == Versions{1, 2, 3, 4, 5});
  harness.FromCoordinator(harness.MakeRetained({Id(1, 2), Id(1, 4)}, Id(1, 4)));
  CHECK(versions() == Versions{2, 4, 5});  // the manifest of 5 may be in flight
  harness.FromCoordinator(harness.MakeRetained({Id(1, 2), Id(1, 4)}, Id(1, 4)));
  CHECK(versions() == Versions{2, 4, 5});
  harness.FromCoordinator(harness.MakeRetained({Id(1, 2), Id(1, 4)}, Id(1, 5)));  // given up
  CHECK(versions() == Versions{2, 4});
  harness.Forget();
  harness.FromCoordinator(harness.MakePin(5));
  CHECK(!DoneOf(&harness).failure.empty());
  CHECK(harness.disk.identity().newest_retained == Id(1, 4));
  harness.Forget();
  harness.Tick(seconds(3));
  CHECK(harness.Take<Hello>(kCoordinator).at(0).newest_retained == Id(1, 4));
}

TEST_CASE("the newest version that was ever kept stays, whatever a coordinator says of it", "[server][snapshot]") {
  ShardHarness harness;
  harness.Start();
  for (std::uint64_t step = 0; step < 3; ++step) KeepStep(&harness, step, 1.0F);
  const std::vector<SnapshotPart> parts = harness.disk.List();
  harness.FromCoordinator(harness.MakeRetained({Id(1, 1), Id(1, 2)}, Id(1, 2)));
  REQUIRE(harness.disk.List().size() == 3);
  harness.FromCoordinator(harness.MakeRetained({Id(1, 1)}, Id(9, 9)));  // an old list
  CHECK(harness.disk.List() == std::vector<SnapshotPart>{parts[0], parts[1]});

  // If the newest snapshot is missing, for example because it was found damaged, the newest one before it stays.
  MemorySnapshotStore older;
  older.AddPartsOf(harness.disk);
  ShardHarnessOptions options = With({}, older);
  options.newest_retained = Id(1, 5);
  ShardHarness again(options);
  again.FromCoordinator(again.MakeResetTo(2, {parts[1]}));
  again.generation = Generation{2};
  again.FromCoordinator(again.MakeRetained({Id(1, 1)}, Id(9, 9)));
  CHECK(again.disk.List() == std::vector<SnapshotPart>{parts[0], parts[1]});
  KeepStep(&again, 2, 1.0F);
  again.FromCoordinator(again.MakeRetained({Id(2, 3)}, Id(2, 3)));
  REQUIRE(again.disk.List().size() == 1);
  CHECK(again.disk.List()[0].id == Id(2, 3));
}

TEST_CASE("a list without snapshots deletes nothing once there was one, and is logged", "[server][snapshot]") {
  ShardHarness harness;
  harness.Start();
  for (std::uint64_t step = 0; step < 3; ++step) KeepStep(&harness, step, 1.0F);
  harness.FromCoordinator(harness.MakeRetained({Id(1, 1), Id(1, 2)}, Id(1, 2)));
  const std::vector<SnapshotPart> parts = harness.disk.List();
  REQUIRE(parts.size() == 3);
  harness.Forget();
  harness.FromCoordinator(harness.MakeRetained({}, {Generation{1}, Version{UINT64_MAX}}));
  CHECK(harness.disk.List() == parts);
  REQUIRE(harness.notices().size() == 1);
  CHECK_THAT(harness.notices()[0].text,
             Contains("shard 0 deletes no snapshots") && Contains("there was one of version 2 (generation 1)"));
  CHECK(harness.disk.identity().newest_retained == Id(1, 2));
  harness.Forget();
  harness.Tick(seconds(10));
  CHECK(harness.Take<SnapshotDone>(kCoordinator).empty());  // what it says of reports counts
}

TEST_CASE("a list with a snapshot that is yet to come deletes nothing, and does not count as the newest",
          "[server][snapshot]") {
  ShardHarness harness;
  harness.Start();
  for (std::uint64_t step = 0; step < 3; ++step) KeepStep(&harness, step, 1.0F);
  harness.FromCoordinator(harness.MakeRetained({Id(1, 2)}, Id(1, 2)));
  const std::vector<SnapshotPart> parts = harness.disk.List();
  for (SnapshotId id : {Id(1, 4), Id(2, 1), SnapshotId{Generation{1}, Version{UINT64_MAX}}}) {
    harness.Forget();
    harness.FromCoordinator(harness.MakeRetained({Id(1, 1), id}, Id(9, 9)));
    CHECK(harness.disk.List() == parts);
    CHECK_THAT(harness.notices().at(0).text, Contains("which is yet to come"));
    CHECK(harness.disk.identity().newest_retained == Id(1, 2));
  }
}

TEST_CASE("a snapshot of which a shard has no part does not make it let go of the newest that it has",
          "[server][snapshot]") {
  ShardHarness harness;
  harness.Start();
  for (std::uint64_t step = 0; step < 2; ++step) KeepStep(&harness, step, 1.0F);
  DoStep(&harness, 2, 1.0F);
  harness.FromCoordinator(harness.MakeRetained({Id(1, 1)}, Id(1, 1)));
  harness.FromCoordinator(harness.MakeRetained({Id(1, 3)}, Id(9, 9)));  // a version that was not saved here
  CHECK(harness.disk.identity().newest_retained == Id(1, 1));
  REQUIRE(harness.disk.List().size() == 1);
  CHECK(harness.disk.List()[0].id == Id(1, 1));
}

TEST_CASE("parts of an older generation that are not kept go when the new one keeps something", "[server][snapshot]") {
  ShardHarness harness;
  harness.Start();
  for (std::uint64_t step = 0; step < 2; ++step) KeepStep(&harness, step, 1.0F);
  const std::vector<SnapshotPart> parts = harness.disk.List();
  harness.FromCoordinator(harness.MakeResetTo(2, {parts[0]}));
  harness.generation = Generation{2};
  CHECK(harness.disk.List().size() == 2);
  harness.FromCoordinator(harness.MakeRetained({Id(1, 1)}, Id(1, 1)));
  CHECK(harness.disk.List() == std::vector<SnapshotPart>{parts[0]});
}

TEST_CASE("what is in the directory is said in Hello, as is the job it belongs to", "[server][snapshot]") {
  ShardHarness first;
  first.Start();
  KeepStep(&first, 0, 1.0F);
  ShardHarness second(With({}, first.disk));
  second.Tick();
  const Hello hello = second.Take<Hello>(kCoordinator).at(0);
  CHECK(hello.parts == first.disk.List());
  CHECK(!hello.serving);
  first.FromCoordinator(Ping{Term{1}, Generation{1}});
  CHECK(first.Take<Hello>(kCoordinator).at(0).parts == first.disk.List());
  CHECK(first.Take<Hello>(kCoordinator).empty());
  CHECK(first.disk.identity().job == JobId{1, 2});
  CHECK(first.disk.identity().generation == Generation{1});
}

// ---- going back -----------------------------------------------------------------------------------------------------

TEST_CASE("a shard that goes back has the weights, optimizer state and step it had, and the same bits after",
          "[server][snapshot]") {
  const ShardHarnessOptions options{.optimizer = OptimizerKind::kMomentum};
  ShardHarness undisturbed(options);
  undisturbed.Start();
  KeepStep(&undisturbed, 0, 1.0F);
  const std::uint64_t digest = undisturbed.shard->store().Digest();
  DoStep(&undisturbed, 1, 3.0F);

  ShardHarness harness(With(options, undisturbed.disk));
  harness.FromCoordinator(harness.MakeResetTo(2, harness.disk.List()));
  harness.generation = Generation{2};
  const ResetDone done = harness.Take<ResetDone>(kCoordinator).at(0);
  CHECK(done.generation == Generation{2});
  CHECK(harness.shard->store().Digest() == digest);
  CHECK(harness.shard->version() == Version{1});
  CHECK(harness.shard->serving());
  harness.FromWorker(harness.MakePull(1, {0, 1, 2}));
  CHECK(harness.Take<Weights>().size() == 3);
  CHECK(harness.WeightOf(0) == -1.0F);
  DoStep(&harness, 1, 3.0F);
  CHECK(harness.WeightOf(0) == -4.5F);  // with half of the first step's momentum
  CHECK(harness.shard->store().Digest() == undisturbed.shard->store().Digest());
  CHECK(harness.shard->version() == Version{2});
}

TEST_CASE("a shard in the middle of a step goes back, and forgets what it had of it", "[server][snapshot]") {
  ShardHarness harness({.optimizer = OptimizerKind::kMomentum});
  harness.Start();
  KeepStep(&harness, 0, 1.0F);
  const std::uint64_t digest = harness.shard->store().Digest();
  DoStep(&harness, 1, 9.0F);
  harness.Stage(2, 0, kLeaf0, 1, 9.0F);
  harness.FromCoordinator(harness.MakeResetTo(2, harness.disk.List()));
  harness.generation = Generation{2};
  CHECK(harness.shard->store().Digest() == digest);
  CHECK(harness.shard->engine().staged_bytes() == 0);
  CHECK(harness.shard->last_commit() == nullptr);
  CHECK(harness.Coverage(1).nodes.empty());
  Commit late = harness.MakeCommit(1);
  late.generation = Generation{1};
  harness.FromCoordinator(late);
  CHECK(harness.shard->version() == Version{1});
}

TEST_CASE("async: a shard that goes back knows which pushes and ends are in its weights", "[server][snapshot][async]") {
  ShardHarness first(AsyncMomentum());
  first.Start();
  for (std::uint64_t k : {1U, 2U}) {
    for (BlockIndex block : {0U, 1U}) first.Stage(k, block, kLeaf0, 1, 1.0F);
    first.FromWorker(first.MakeEnd(k, 0, 10 + k));
  }
  first.Stage(1, 0, kLeaf1, 1, 1.0F);
  first.FromWorker(first.MakeEnd(1, 1, 30));
  StepParameters parameters;
  parameters.learning_rate = 1.0F;
  first.FromCoordinator(
      ClockUpdate{Term{1}, Generation{1}, SequenceNumber{1}, parameters});  // reports of step 1 are counted
  first.FromCoordinator(first.MakePin(1));

  ShardHarness harness(With(AsyncMomentum(), first.disk));
  harness.FromCoordinator(harness.MakeResetTo(2, harness.disk.List()));
  harness.generation = Generation{2};
  CHECK(harness.shard->store().Digest() == first.shard->store().Digest());
  CHECK(harness.shard->version() == Version{1});
  CHECK(harness.shard->engine().updates(0) == 3);
  CHECK(harness.shard->engine().updates(1) == 2);
  CHECK(harness.Coverage(0).clocks == std::vector<SequenceNumber>{{2}, {0}});
  harness.Forget();
  harness.Tick(seconds(1));
  const Progress progress = harness.Take<Progress>(kCoordinator).at(0);
  CHECK(progress.clocks == std::vector<SequenceNumber>{{2}, {0}});
  REQUIRE(progress.reports.size() == 1);
  CHECK(progress.reports[0].sequence == SequenceNumber{2});
  CHECK(progress.reports[0].report.samples == 12);
  const float before = harness.WeightOf(0);
  harness.Stage(2, 0, kLeaf0, 1, 9.0F);  // sent again by a worker that does not know it
  harness.Stage(1, 0, kLeaf1, 1, 9.0F);
  CHECK(harness.WeightOf(0) == before);
  CHECK(harness.metrics->pushes_duplicate.value() == 2);
  for (ShardHarness* one : {&first, &harness}) {
    one->Stage(3, 0, kLeaf0, 1, 2.0F);
    one->Stage(1, 1, kLeaf1, 1, 2.0F);
  }
  CHECK(harness.shard->store().Digest() == first.shard->store().Digest());
}

TEST_CASE("a damaged block is not served: the Reset is answered with its name, and an older snapshot is",
          "[server][snapshot]") {
  ShardHarness first;
  first.Start();
  KeepStep(&first, 0, 1.0F);
  KeepStep(&first, 1, 1.0F);
  REQUIRE(first.disk.DamageNewest());
  ShardHarness harness(With({}, first.disk));
  const std::vector<SnapshotPart> parts = harness.disk.List();
  harness.FromCoordinator(harness.MakeResetTo(2, {parts[1]}));
  const ResetBad bad = harness.Take<ResetBad>(kCoordinator).at(0);
  CHECK(bad.generation == Generation{2});
  CHECK(bad.incarnation == Incarnation{7});
  CHECK(bad.reason.find("block 0") != std::string::npos);
  CHECK(!harness.shard->serving());
  CHECK(harness.Take<ResetDone>(kCoordinator).empty());
  harness.generation = Generation{2};
  harness.FromWorker(harness.MakePull(2, {0}));
  CHECK(harness.Refused(Code::kBusy));
  harness.FromCoordinator(harness.MakeResetTo(2, {parts[1]}));  // it is asked again, and still bad
  CHECK(harness.Take<ResetBad>(kCoordinator).size() == 1);
  harness.FromCoordinator(harness.MakeResetTo(3, {parts[0]}));
  CHECK(harness.Take<ResetDone>(kCoordinator).size() == 1);
  CHECK(harness.WeightOf(0) == -1.0F);
}

TEST_CASE("nothing is served, and no Reset answered, before the disk has read and remembered", "[server][snapshot]") {
  ShardHarness first;
  first.Start();
  KeepStep(&first, 0, 1.0F);
  ShardHarness harness(With({}, first.disk));
  harness.HoldDisk();
  for (int i = 0; i < 3; ++i) harness.FromCoordinator(harness.MakeResetTo(2, harness.disk.List()));
  harness.generation = Generation{2};
  CHECK(harness.Silent());
  CHECK(!harness.shard->serving());
  harness.FromWorker(harness.MakePull(1, {0}));
  CHECK(harness.Refused(Code::kBusy));
  harness.FromCoordinator(harness.MakePin(1));
  harness.Commits(1);
  harness.Tick(seconds(1));
  CHECK(harness.Silent());
  harness.FromCoordinator(Ping{Term{1}, Generation{2}});
  CHECK(!harness.Take<Hello>(kCoordinator).at(0).serving);
  CHECK(harness.disk.identity().generation == Generation{0});
  harness.LetDiskGo();
  CHECK(harness.Take<ResetDone>(kCoordinator).size() == 1);  // read once, although asked three times
  CHECK(harness.shard->serving());
  CHECK(harness.disk.identity().generation == Generation{2});
}

TEST_CASE("a shard that cannot remember its generation does not serve it", "[server][snapshot]") {
  ShardHarness harness;
  harness.disk.FailRemember(Unreachable("the disk is full"));
  harness.FromCoordinator(harness.MakeReset());
  CHECK(harness.Silent());
  CHECK(!harness.shard->serving());
  REQUIRE(!harness.notices().empty());
  CHECK(harness.notices().back().severity == Severity::kError);
  CHECK(harness.notices().back().text.find("the disk is full") != std::string::npos);
}

TEST_CASE("a shard whose disk is full writes down who it is when there is room, and then answers Reset",
          "[server][snapshot]") {
  ShardHarness harness;
  harness.disk.FailRemember(Status(Code::kBusy, "no space left on device"));
  harness.FromCoordinator(harness.MakeReset());
  for (int i = 0; i < 3; ++i) harness.Tick(std::chrono::seconds(10));
  CHECK(harness.Take<ResetDone>(kCoordinator).empty());
  harness.disk.FailRemember({});
  harness.Tick(std::chrono::seconds(10));
  CHECK(harness.Take<ResetDone>(kCoordinator).size() == 1);
  CHECK(harness.disk.identity().generation == Generation{1});
}

TEST_CASE("a Reset ends the writing of a version: nothing of it is kept, or said", "[server][snapshot]") {
  ShardHarness harness;
  harness.Start();
  KeepStep(&harness, 0, 1.0F);
  const std::vector<SnapshotPart> parts = harness.disk.List();
  harness.HoldDisk();
  KeepStep(&harness, 1, 1.0F);
  harness.Forget();
  harness.FromCoordinator(harness.MakeResetTo(2, parts));
  harness.LetDiskGo();
  CHECK(harness.Take<SnapshotDone>(kCoordinator).empty());
  CHECK(harness.Take<ResetDone>(kCoordinator).size() == 1);
  CHECK(harness.disk.List() == parts);
  harness.generation = Generation{2};
  harness.Tick(seconds(7));
  CHECK(harness.Take<SnapshotDone>(kCoordinator).empty());
  KeepStep(&harness, 1, 1.0F);  // the same version on another timeline
  CHECK(DoneOf(&harness).generation == Generation{2});
  CHECK(harness.disk.List().size() == 2);
}

TEST_CASE("of two Resets while the disk is busy the newer one counts", "[server][snapshot]") {
  ShardHarness first;
  first.Start();
  KeepStep(&first, 0, 1.0F);
  KeepStep(&first, 1, 1.0F);
  ShardHarness harness(With({}, first.disk));
  const std::vector<SnapshotPart> parts = harness.disk.List();
  harness.HoldDisk();
  harness.FromCoordinator(harness.MakeResetTo(2, {parts[1]}));
  harness.FromCoordinator(harness.MakeResetTo(3, {parts[0]}));
  harness.FromCoordinator(harness.MakeResetTo(2, {parts[1]}));  // late
  harness.LetDiskGo();
  const std::vector<ResetDone> done = harness.Take<ResetDone>(kCoordinator);
  REQUIRE(done.size() == 1);
  CHECK(done[0].generation == Generation{3});
  CHECK(harness.shard->version() == Version{1});
  CHECK(harness.WeightOf(0) == -1.0F);
}

TEST_CASE("a Reset that makes no sense does not disturb the one that is being carried out", "[server][snapshot]") {
  ShardHarness first;
  first.Start();
  KeepStep(&first, 0, 1.0F);
  ShardHarness harness(With({}, first.disk));
  harness.HoldDisk();
  harness.FromCoordinator(harness.MakeResetTo(2, harness.disk.List()));
  Reset bad = harness.MakeResetTo(3, harness.disk.List());
  bad.slot_count = 0;
  harness.FromCoordinator(bad);
  CHECK(harness.Take<ResetBad>(kCoordinator).size() == 1);
  harness.LetDiskGo();
  CHECK(harness.Take<ResetDone>(kCoordinator).at(0).generation == Generation{2});
  CHECK(harness.WeightOf(0) == -1.0F);
}

}  // namespace
}  // namespace capstan::server
