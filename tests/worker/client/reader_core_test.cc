// How a reader follows a job: what it requests from whom, and that the blocks it returns belong to one version.
#include <algorithm>
#include <map>
#include <set>

#include "common/base/hash.h"
#include "tests/catch.h"
#include "tests/common/wire/hostile_messages.h"
#include "worker/client/reader_core.h"

namespace capstan::client {
namespace {

using Catch::Matchers::Contains;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr PeerId kJobCoordinator{1};
constexpr std::uint32_t kBlockElements = 4, kShards = 2;

// A reader of a job with 40 blocks of 4 elements; shard 0 has the even blocks. The methods act as the coordinator and
// the shards.
class ReaderBench {
 public:
  static constexpr BlockIndex kBlocks = 40;

  explicit ReaderBench(const char* mode = "sync", const char* optimizer = "adam") {
    job_file_ = "[job]\nname = \"j\"\nmode = \"" + std::string(mode) +
                "\"\nsteps = 9\nslots = 4\nglobal_batch = 4\n[model]\nkind = \"client\"\n[optimizer]\nkind = \"" +
                optimizer + "\"\nlr = 0.1\n[cluster]\nservers = 2\nworkers = 1\n";
    ReaderCoreOptions options;
    options.name = "r";
    options.nonce = 7;
    options.coordinator = kJobCoordinator;
    options.coordinator_address = "here:1";
    options.block_elements = kBlockElements;
    options.connect = [this](const std::string& endpoint) {
      connected.insert(endpoint);
      const bool known = endpoint.starts_with("shard-");
      return known ? PeerId{100 + static_cast<std::uint64_t>(endpoint.back() - '0')} : PeerId{};
    };
    options.disconnect = [this](PeerId peer) { disconnected.push_back(peer); };
    core = std::make_unique<ReaderCore>(std::move(options));
  }

  View MakeView(std::uint64_t step, JobPhase phase = JobPhase::kRunning) const {
    View view;
    view.job = JobId{1, 2};
    view.term = Term{1};
    view.generation = generation;
    view.sequence = 3;
    view.phase = phase;
    view.slot_count = 4;
    view.step = view.readable = Step{step};
    for (ShardIndex i = 0; i < kShards; ++i) {
      view.shards.push_back({i, Incarnation{50 + i}, "shard-" + std::to_string(i)});
    }
    return view;
  }
  View MakeFirstView(std::uint64_t step, JobPhase phase = JobPhase::kRunning) const {
    View view = MakeView(step, phase);
    view.job_file = job_file_;
    for (BlockIndex i = 0; i < kBlocks; ++i) view.catalog.push_back({"t" + std::to_string(i), {4}, {}});
    return view;
  }
  void FromCoordinator(Header header) { core->Handle(kJobCoordinator, {std::move(header), {}}, now, &out); }
  void FromShard(ShardIndex shard, Message message) { core->Handle(PeerId{100 + shard}, message, now, &out); }
  void Want(std::optional<std::uint64_t> newer_than = {}, bool optimizer_state = false) {
    ReaderCore::Wish wish;
    if (newer_than) wish.newer_than = Step{*newer_than};
    wish.optimizer_state = optimizer_state;
    core->Want(wish);
    Tick();
  }
  void Tick(Instant later = {}) {
    now += later;
    core->Tick(now, &out);
  }
  template <class T>
  std::vector<T> Take(PeerId to) {
    std::vector<T> taken;
    std::erase_if(out.envelopes, [&](const Envelope& envelope) {
      const T* body = envelope.message.header.As<T>();
      if (envelope.to != to || body == nullptr) return false;
      taken.push_back(*body);
      return true;
    });
    return taken;
  }
  std::vector<Pull> Pulls(ShardIndex shard) { return Take<Pull>(PeerId{100 + shard}); }

  // Returns the value that fills an array of a block; it encodes the version and the array.
  static float Value(std::uint64_t version, std::uint32_t array) { return static_cast<float>(version * 10 + array); }
  Message Answer(ShardIndex shard, const Pull& pull, BlockIndex block, std::uint64_t version) {
    Weights weights;
    weights.generation = pull.generation;
    weights.incarnation = Incarnation{50 + shard};
    weights.version = Version{version};
    weights.asked = pull.version;
    weights.block = block;
    weights.array = pull.array;
    weights.stop = version == last_version;
    BufferRef buffer = pool.Take();
    std::fill_n(buffer.As<float>(), 4, Value(version, pull.array));
    const std::byte* data = buffer->data();
    Slice payload{std::move(buffer), data, 16};
    weights.payload_hash = Hash64(payload.bytes());
    return {weights, payload};
  }
  Message Refusal(ShardIndex shard, Code code, std::uint64_t step) const {
    return {Error{code, generation, Incarnation{50 + shard}, Step{step}, {}, 0, "because"}, {}};
  }
  // Answers requests as server/shard/shard.cc does when the shard has published `version`. Pulls that must wait are
  // kept.
  void Serve(ShardIndex shard, std::uint64_t version) {
    std::vector<Pull> pulls = Pulls(shard);
    if (parked.contains(shard)) pulls.insert(pulls.begin(), parked[shard]);
    parked.erase(shard);
    for (const Pull& pull : pulls) {
      if (pull.generation != generation) {
        FromShard(shard, Refusal(shard, Code::kStale, version));
      } else if (pull.version.value < version) {
        FromShard(shard, Refusal(shard, Code::kStale, version));
      } else if (pull.version.value > version + 64) {
        FromShard(shard, Refusal(shard, Code::kBusy, version));
      } else if (pull.version.value > version) {
        parked[shard] = pull;
      } else {
        for (BlockIndex block : pull.blocks) FromShard(shard, Answer(shard, pull, block, version));
      }
    }
    for (const CoverageQuery& query : Take<CoverageQuery>(PeerId{100 + shard})) {
      Staged answer;
      answer.generation = generation;
      answer.incarnation = Incarnation{50 + shard};
      answer.answers = query.question;
      answer.pull_waits = parked.contains(shard);
      FromShard(shard, {answer, {}});
    }
  }
  // Answers for all shards at this version until the reader makes no more requests.
  void ServeAll(std::uint64_t version) {
    for (int i = 0; i < 10; ++i) {
      for (ShardIndex shard = 0; shard < kShards; ++shard) Serve(shard, version);
    }
  }
  bool ShowsOnly(std::uint64_t version, std::uint32_t array = 0) const {
    const float* values = core->array(array);
    return values != nullptr &&
           std::all_of(values, values + 4 * kBlocks, [&](float value) { return value == Value(version, array); });
  }
  // Connects the reader to a job at this step. No shard has been asked yet.
  ReaderBench& Meet(std::uint64_t step) {
    core->Refresh();
    Tick();
    FromCoordinator(MakeFirstView(step));
    out.Clear();
    return *this;
  }

  // Reads the last version before the coordinator reports the job as done.
  void ReadLast() {
    Meet(9).Want();
    FromCoordinator(MakeView(9));
    ServeAll(9);
    REQUIRE(core->reading());
    REQUIRE(core->reading()->done);
  }
  // Whether the call in progress gets an answer although no message arrives for longer than any limit.
  bool AnsweredInSilence() {
    for (int i = 0; i < 620 && core->status().ok() && !core->answered(); ++i) Tick(seconds(1));
    return core->answered();
  }

  std::unique_ptr<ReaderCore> core;
  Generation generation{1};
  std::uint64_t last_version = 9;
  std::set<std::string> connected;
  std::vector<PeerId> disconnected;
  std::map<ShardIndex, Pull> parked;
  Outbox out;
  Instant now = seconds(100);

 private:
  std::string job_file_;
  BufferPool pool{64};
};

}  // namespace

TEST_CASE("a reader joins until it knows the tensors, then asks in short and holds no slot", "[client][reader]") {
  ReaderBench bench;
  bench.core->Refresh();
  bench.Tick();
  const Join join = bench.Take<Join>(kJobCoordinator).at(0);
  CHECK(join.catalog.empty());
  CHECK(join.worker == "r");
  CHECK_FALSE(bench.core->fresh());
  View view = bench.MakeFirstView(0, JobPhase::kGathering);
  view.catalog.clear();  // no worker has declared it
  bench.FromCoordinator(view);
  CHECK(bench.core->fresh());
  CHECK_THAT(bench.core->job_file(), Contains("adam"));
  CHECK(bench.core->state_names() == std::vector<std::string>{"exp_avg", "exp_avg_sq"});
  bench.Want();
  CHECK(bench.Take<Join>(kJobCoordinator).size() == 1);
  CHECK_THAT(bench.core->WaitingFor(), Contains("a worker to declare"));
  bench.FromCoordinator(bench.MakeFirstView(0, JobPhase::kGathering));
  CHECK_THAT(bench.core->WaitingFor(), Contains("the job to start"));
  const Beat beat = bench.Take<Beat>(kJobCoordinator).at(0);  // at once: from now on the job's end waits for it
  CHECK(beat.session == SessionId{});
  CHECK(beat.nonce == 7);
  CHECK(bench.connected.empty());
  bench.FromCoordinator(bench.MakeView(0));
  CHECK(bench.connected.size() == 2);
  bench.ServeAll(0);
  REQUIRE(bench.core->reading());
  CHECK(bench.ShowsOnly(0));
  bench.core->Leave(&bench.out);
  CHECK(bench.Take<Leave>(kJobCoordinator).at(0).nonce == 7);
}

TEST_CASE("a version is read whole, with the optimizer's state where that is wanted", "[client][reader]") {
  ReaderBench bench;
  bench.Meet(4).Want({}, true);
  bench.FromCoordinator(bench.MakeView(4));
  bench.ServeAll(4);
  REQUIRE(bench.core->reading());
  CHECK(bench.core->reading()->step == Step{4});
  CHECK(bench.core->reading()->generation == Generation{1});
  CHECK_FALSE(bench.core->reading()->done);
  for (std::uint32_t array : {0U, 1U, 2U}) CHECK(bench.ShowsOnly(4, array));
  CHECK(bench.core->array(3) == nullptr);
  bench.Want();
  CHECK(bench.core->array(0) == nullptr);  // it belongs to the version before
  bench.FromCoordinator(bench.MakeView(4));
  bench.ServeAll(4);
  CHECK(bench.ShowsOnly(4));
  CHECK(bench.core->array(1) == nullptr);
}

TEST_CASE("shards that go on in the middle of a reading give a later version, and none that is torn",
          "[client][reader]") {
  ReaderBench bench;
  bench.Meet(4).Want();
  bench.FromCoordinator(bench.MakeView(4));
  const std::vector<Pull> first = bench.Pulls(0);
  for (BlockIndex block : first.at(0).blocks) bench.FromShard(0, bench.Answer(0, first[0], block, 4));
  bench.Serve(1, 5);  // this shard is ahead: version 4 can no longer be read whole
  CHECK_FALSE(bench.core->answered());
  bench.Serve(0, 4);
  bench.Serve(1, 5);
  REQUIRE(bench.parked.size() == 2);
  CHECK(bench.parked[0].version == Version{6});
  bench.FromShard(0, bench.Answer(0, first[0], 0, 4));  // late
  bench.ServeAll(6);
  REQUIRE(bench.core->reading());
  CHECK(bench.core->reading()->step == Step{6});
  CHECK(bench.ShowsOnly(6));
}

TEST_CASE("a reader that is too late tries again, and shows nothing before it has a version", "[client][reader]") {
  ReaderBench bench;
  bench.Meet(0).Want();
  bench.FromCoordinator(bench.MakeView(0));
  for (const std::uint64_t step : {1, 4, 8}) {
    bench.parked.clear();
    bench.Serve(0, step);
    CHECK(bench.core->array(0) == nullptr);
    CHECK_FALSE(bench.core->answered());
  }
  bench.parked.clear();
  bench.Tick(milliseconds(200));
  bench.ServeAll(9);
  REQUIRE(bench.core->reading());
  CHECK(bench.core->reading()->done);
  CHECK(bench.ShowsOnly(9));
}

TEST_CASE("a reader whose questions come too late asks further ahead, not beyond the last version",
          "[client][reader]") {
  ReaderBench bench;
  bench.Meet(0).Want();
  bench.FromCoordinator(bench.MakeView(0));
  std::vector<std::uint64_t> asked;
  for (const std::uint64_t step : {1, 3, 6, 9}) {
    bench.out.Clear();
    bench.FromShard(0, bench.Refusal(0, Code::kStale, step));
    for (const Pull& pull : bench.Pulls(0)) asked.push_back(pull.version.value);
  }
  CHECK(asked == std::vector<std::uint64_t>{2, 5, 9});  // one ahead, two, and four would be more than there are
}

TEST_CASE("a job that stands still gives its present version to one that waits for a later one", "[client][reader]") {
  ReaderBench bench;
  bench.Meet(0).Want();
  bench.FromCoordinator(bench.MakeView(0));
  bench.ServeAll(1);
  CHECK(bench.parked.size() == 2);  // for version 2
  bench.FromCoordinator(bench.MakeView(1));
  for (int i = 0; i < 25; ++i) {
    bench.Tick(milliseconds(100));
    bench.FromCoordinator(bench.MakeView(1));
  }
  bench.parked.clear();
  bench.ServeAll(1);
  REQUIRE(bench.core->reading());
  CHECK(bench.ShowsOnly(1));
}

TEST_CASE("answers that are lost are asked for again", "[client][reader]") {
  ReaderBench bench;
  bench.Meet(4).Want();
  bench.out.Clear();
  bench.Tick(milliseconds(600));
  CHECK(bench.Take<Beat>(kJobCoordinator).size() == 1);
  bench.FromCoordinator(bench.MakeView(4));
  bench.Pulls(1);  // lost
  bench.Serve(0, 4);
  bench.Tick(seconds(2));
  bench.ServeAll(4);
  CHECK(bench.ShowsOnly(4));
}

TEST_CASE("a version newer than one that is known waits at the shards for the step's end", "[client][reader]") {
  ReaderBench bench;
  bench.Meet(4).Want(4);
  bench.FromCoordinator(bench.MakeView(4));
  bench.ServeAll(4);
  CHECK(bench.parked.size() == 2);
  CHECK_THAT(bench.core->WaitingFor(), Contains("end step 4"));
  bench.ServeAll(5);
  CHECK(bench.ShowsOnly(5));

  bench.Want(8);  // beyond the job's progress: no shard is asked in vain
  bench.FromCoordinator(bench.MakeView(6));
  CHECK(bench.Pulls(0).empty());
  bench.FromCoordinator(bench.MakeView(9));
  bench.ServeAll(9);
  REQUIRE(bench.core->reading());
  CHECK(bench.core->reading()->done);  // the shards report it as the last version
  CHECK(bench.ShowsOnly(9));
}

TEST_CASE("the last version stays, and there is nothing newer", "[client][reader]") {
  ReaderBench bench;
  bench.Meet(8).Want();
  bench.FromCoordinator(bench.MakeView(8));
  bench.Serve(0, 9);
  bench.Serve(1, 9);
  bench.ServeAll(9);
  CHECK(bench.parked.empty());  // no version follows
  REQUIRE(bench.core->reading());
  CHECK(bench.core->reading()->done);
  CHECK(bench.ShowsOnly(9));
  CHECK(bench.Take<Leave>(kJobCoordinator).size() == 1);
  bench.FromCoordinator(bench.MakeView(9));  // its members do not know it yet
  bench.out.Clear();
  bench.Want(9);
  CHECK(bench.core->answered());
  CHECK_FALSE(bench.core->reading());
  CHECK(bench.core->array(0) == nullptr);
  CHECK(bench.out.envelopes.empty());  // no shard is asked: the servers may have ended
}

TEST_CASE("one that has not read the last version hears of the job's end that nothing is newer", "[client][reader]") {
  ReaderBench bench;
  bench.Meet(9).Want(9);
  bench.FromCoordinator(bench.MakeView(9));  // all is committed, and its members do not know yet
  CHECK_FALSE(bench.core->answered());
  bench.FromCoordinator(bench.MakeView(9, JobPhase::kDone));
  CHECK(bench.core->answered());
  CHECK_FALSE(bench.core->reading());
  CHECK(bench.Take<Leave>(kJobCoordinator).size() == 1);
}

TEST_CASE("a reader that knows of a job's end asks a coordinator no more, other than for the last version",
          "[client][reader]") {
  ReaderBench bench;
  bench.Meet(8).core->Refresh();
  bench.FromCoordinator(bench.MakeView(9, JobPhase::kDone));  // the answer to how far the job is
  SECTION("which is had already") {
    bench.Want(9);
    CHECK(bench.core->answered());
    CHECK_FALSE(bench.core->reading());
    CHECK(bench.core->status().ok());
    CHECK(bench.Take<Leave>(kJobCoordinator).size() == 1);
  }
  SECTION("which is not had") {
    bench.Want(8);
    CHECK_FALSE(bench.AnsweredInSilence());
    CHECK_THAT(bench.core->status().message(), Contains("here:1") && Contains("the job was done"));
  }
}

TEST_CASE("the silence of a coordinator is an error while the job may go on", "[client][reader]") {
  ReaderBench bench;
  std::uint64_t read = 9;
  SECTION("at a version that is not the last") {
    read = 4;
    bench.Meet(4).Want();
    bench.FromCoordinator(bench.MakeView(4));
    bench.ServeAll(4);
    REQUIRE(bench.ShowsOnly(4));
  }
  SECTION("after a lost shard has taken back the last step") {
    bench.ReadLast();
    bench.generation = Generation{2};
    bench.core->Refresh();
    bench.FromCoordinator(bench.MakeView(7));
  }
  SECTION("while a shard is lost after the last step") {
    bench.ReadLast();
    bench.core->Refresh();
    bench.FromCoordinator(bench.MakeView(9, JobPhase::kGathering));
  }
  bench.Want(read);
  CHECK_FALSE(bench.AnsweredInSilence());
  CHECK(bench.core->status().code() == Code::kUnreachable);
  CHECK_THAT(bench.core->status().message(), Contains("here:1") && !Contains("the job was done"));
}

TEST_CASE("a job that fails after its last step says so to one that has read it", "[client][reader]") {
  ReaderBench bench;
  bench.ReadLast();
  View failed = bench.MakeView(9, JobPhase::kFailed);
  failed.message = "the disk is full";
  bench.core->Refresh();
  bench.FromCoordinator(failed);
  bench.Want(9);
  CHECK_FALSE(bench.core->answered());
  bench.FromCoordinator(failed);
  CHECK_THAT(bench.core->status().message(), Contains("the disk is full"));
}

TEST_CASE("another generation in the middle of a reading begins it anew", "[client][reader]") {
  ReaderBench bench;
  bench.Meet(4).Want();
  bench.FromCoordinator(bench.MakeView(4));
  bench.Serve(0, 4);
  const Pull old = bench.Pulls(1).at(0);
  bench.generation = Generation{2};  // the job went back to version 3
  bench.Tick(milliseconds(200));
  bench.Serve(0, 3);
  for (BlockIndex block : old.blocks) bench.FromShard(1, bench.Answer(1, old, block, 4));
  CHECK_FALSE(bench.core->answered());
  View recovering = bench.MakeView(3, JobPhase::kGathering);
  recovering.shards.clear();
  bench.FromCoordinator(recovering);
  CHECK_THAT(bench.core->WaitingFor(), Contains("the job to start"));
  bench.out.Clear();
  bench.FromCoordinator(bench.MakeView(3));
  bench.ServeAll(3);
  REQUIRE(bench.core->reading());
  CHECK(bench.core->reading()->generation == Generation{2});
  CHECK(bench.ShowsOnly(3));
}

TEST_CASE("a shard that has moved is connected to anew", "[client][reader]") {
  ReaderBench bench;
  bench.Meet(4).Want();
  bench.FromCoordinator(bench.MakeView(4));
  bench.generation = Generation{2};
  View moved = bench.MakeView(4);
  moved.shards[1].endpoint = "shard-5";
  bench.out.Clear();
  bench.FromCoordinator(moved);
  CHECK(bench.disconnected == std::vector<PeerId>{{101}});
  CHECK(bench.Pulls(5).size() == 1);
}

TEST_CASE("without global steps each block is as new as it is, and the step a bound", "[client][reader]") {
  ReaderBench bench("async");
  bench.Meet(3).Want(3);
  bench.FromCoordinator(bench.MakeView(3));
  CHECK(bench.Pulls(0).empty());  // no shard has a newer one for certain
  bench.Take<Beat>(kJobCoordinator);
  bench.Tick(milliseconds(60));
  CHECK(bench.Take<Beat>(kJobCoordinator).size() == 1);  // soon, as no pull waits
  bench.FromCoordinator(bench.MakeView(5));
  for (int round = 0; round < 4; ++round) {
    for (ShardIndex shard : {0U, 1U}) {
      for (const Pull& pull : bench.Pulls(shard)) {
        CHECK(pull.version == Version{5});
        for (BlockIndex block : pull.blocks) bench.FromShard(shard, bench.Answer(shard, pull, block, 7 + shard));
      }
    }
  }
  REQUIRE(bench.core->reading());
  CHECK(bench.core->reading()->step == Step{5});
  CHECK_FALSE(bench.core->reading()->done);
  CHECK(bench.core->array(0)[0] == ReaderBench::Value(7, 0));
  CHECK(bench.core->array(0)[4] == ReaderBench::Value(8, 0));
}

TEST_CASE("a call that is made again goes on with what has come", "[client][reader]") {
  ReaderBench bench;
  bench.Meet(4).Want();
  bench.FromCoordinator(bench.MakeView(4));
  bench.Serve(0, 4);
  bench.Serve(0, 4);
  bench.Serve(1, 4);
  bench.Want();
  bench.Tick(milliseconds(200));
  bench.FromCoordinator(bench.MakeView(4));
  CHECK(bench.Pulls(0).empty());
  bench.Tick(milliseconds(200));
  bench.ServeAll(4);
  CHECK(bench.ShowsOnly(4));
}

TEST_CASE("a job that fails, another job, and a coordinator that is silent end a call in words", "[client][reader]") {
  ReaderBench bench;
  bench.Meet(4).Want();
  View failed = bench.MakeView(4, JobPhase::kFailed);
  failed.message = "nobody came";
  bench.FromCoordinator(failed);
  CHECK(bench.core->status().code() == Code::kRefused);
  CHECK_THAT(bench.core->status().message(), Contains("nobody came"));
  bench.core->Refresh();  // the job's progress may still be asked
  bench.FromCoordinator(failed);
  CHECK(bench.core->status().ok());
  CHECK(bench.core->view().phase == JobPhase::kFailed);

  bench.Want();
  View other = bench.MakeView(4);
  other.job = JobId{3, 4};
  bench.FromCoordinator(other);
  CHECK_THAT(bench.core->status().message(), Contains("another job"));

  bench.Want();
  for (int i = 0; i < 620 && bench.core->status().ok(); ++i) bench.Tick(seconds(1));
  CHECK(bench.core->status().code() == Code::kUnreachable);
  CHECK_THAT(bench.core->status().message(), Contains("here:1"));
}

TEST_CASE("a block that never matches its hash ends the call, and the next one begins again", "[client][reader]") {
  ReaderBench bench;
  bench.Meet(4).Want();
  bench.FromCoordinator(bench.MakeView(4));
  const Pull pull = bench.Pulls(0).at(0);
  Message bad = bench.Answer(0, pull, 0, 4);
  bad.header.Get<Weights>().payload_hash ^= 1;
  for (unsigned i = 0; i <= WeightsReader::kDamagedMax; ++i) bench.FromShard(0, bad);
  CHECK(bench.core->status().code() == Code::kCorrupt);
  bench.out.Clear();
  bench.Want();
  bench.FromCoordinator(bench.MakeView(4));
  bench.ServeAll(4);
  CHECK(bench.ShowsOnly(4));
}

TEST_CASE("neither coordinator nor shard can crash a reader, or have it show what no shard sent", "[client][hostile]") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    ReaderBench bench(seed % 2 == 0 ? "sync" : "async");
    testing::HostileMessages hostile(seed, {1, {50, 51, 49}, {0, 1, 2, 4}, {0, 16, 16}, {1, 2}});
    bench.Meet(1);
    for (int i = 0; i < 400; ++i) {
      bench.Want(hostile.Chance(50) ? std::optional<std::uint64_t>() : hostile.random().Below(3), hostile.Chance(50));
      if (hostile.Chance(30)) bench.FromCoordinator(bench.MakeView(bench.core->view().step.value));
      Message message = hostile.Make();
      if (hostile.Chance(30)) message = hostile.Spoil(bench.MakeView(1 + hostile.random().Below(2)));
      for (const Pull& pull : bench.Pulls(0)) {
        if (pull.blocks.empty() || !hostile.Chance(50)) continue;
        Message sound = bench.Answer(0, pull, pull.blocks[0], pull.version.value);
        message = hostile.Spoil(std::move(sound.header));
      }
      if (hostile.Chance(30)) {
        bench.FromCoordinator(std::move(message.header));
      } else {
        bench.FromShard(static_cast<ShardIndex>(hostile.random().Below(3)), std::move(message));
      }
      if (hostile.Chance(10)) bench.Tick(milliseconds(700));
      (void)bench.core->WaitingFor();
      CHECK((bench.core->reading() || bench.core->array(0) == nullptr));
      bench.out.Clear();
    }
  }
}

}  // namespace capstan::client
