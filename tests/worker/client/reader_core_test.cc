// Tests of ReaderCore: what a reader requests from whom, and that the blocks it returns belong to one version.
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
class ReaderHarness {
 public:
  static constexpr BlockIndex kBlocks = 40;

  explicit ReaderHarness(const char* mode = "sync", const char* optimizer = "adam") {
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
  void Ask(std::optional<std::uint64_t> newer_than = {}, bool optimizer_state = false) {
    ReaderCore::Request request;
    if (newer_than) request.newer_than = Step{*newer_than};
    request.optimizer_state = optimizer_state;
    core->Ask(request);
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
  // Answers requests as server/shard/ does when the shard has published `version`. A pull of a later version is parked.
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
  // Answers for all shards at this version, often enough for all requests of a reading.
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
  // Makes the reader know a job that is at this step, and drops the messages that it has sent.
  ReaderHarness& Meet(std::uint64_t step) {
    core->Refresh();
    Tick();
    FromCoordinator(MakeFirstView(step));
    out.Clear();
    return *this;
  }

  // Reads the last version before the coordinator reports the job as done.
  void ReadLast() {
    Meet(9).Ask();
    FromCoordinator(MakeView(9));
    ServeAll(9);
    REQUIRE(core->reading());
    REQUIRE(core->reading()->done);
  }
  // Whether the call in progress gets an answer although no message arrives for 620 s, longer than any limit.
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
  ReaderHarness harness;
  harness.core->Refresh();
  harness.Tick();
  const Join join = harness.Take<Join>(kJobCoordinator).at(0);
  CHECK(join.catalog.empty());
  CHECK(join.worker == "r");
  CHECK_FALSE(harness.core->fresh());
  View view = harness.MakeFirstView(0, JobPhase::kGathering);
  view.catalog.clear();  // no worker has declared it
  harness.FromCoordinator(view);
  CHECK(harness.core->fresh());
  CHECK_THAT(harness.core->job_file(), Contains("adam"));
  CHECK(harness.core->state_names() == std::vector<std::string>{"exp_avg", "exp_avg_sq"});
  harness.Ask();
  CHECK(harness.Take<Join>(kJobCoordinator).size() == 1);
  CHECK_THAT(harness.core->WaitingFor(), Contains("a worker to declare"));
  harness.FromCoordinator(harness.MakeFirstView(0, JobPhase::kGathering));
  CHECK_THAT(harness.core->WaitingFor(), Contains("the job to start"));
  const Heartbeat beat =
      harness.Take<Heartbeat>(kJobCoordinator).at(0);  // at once: from now on the job's end waits for it
  CHECK(beat.session == SessionId{});
  CHECK(beat.nonce == 7);
  CHECK(harness.connected.empty());
  harness.FromCoordinator(harness.MakeView(0));
  CHECK(harness.connected.size() == 2);
  harness.ServeAll(0);
  REQUIRE(harness.core->reading());
  CHECK(harness.ShowsOnly(0));
  harness.core->Leave(&harness.out);
  CHECK(harness.Take<Leave>(kJobCoordinator).at(0).nonce == 7);
}

TEST_CASE("a version is read whole, with the optimizer's state where that is wanted", "[client][reader]") {
  ReaderHarness harness;
  harness.Meet(4).Ask({}, true);
  harness.FromCoordinator(harness.MakeView(4));
  harness.ServeAll(4);
  REQUIRE(harness.core->reading());
  CHECK(harness.core->reading()->step == Step{4});
  CHECK(harness.core->reading()->generation == Generation{1});
  CHECK_FALSE(harness.core->reading()->done);
  for (std::uint32_t array : {0U, 1U, 2U}) CHECK(harness.ShowsOnly(4, array));
  CHECK(harness.core->array(3) == nullptr);
  harness.Ask();
  CHECK(harness.core->array(0) == nullptr);  // it belongs to the version before
  harness.FromCoordinator(harness.MakeView(4));
  harness.ServeAll(4);
  CHECK(harness.ShowsOnly(4));
  CHECK(harness.core->array(1) == nullptr);
}

TEST_CASE("shards that go on in the middle of a reading give a later version, and none that is torn",
          "[client][reader]") {
  ReaderHarness harness;
  harness.Meet(4).Ask();
  harness.FromCoordinator(harness.MakeView(4));
  const std::vector<Pull> first = harness.Pulls(0);
  for (BlockIndex block : first.at(0).blocks) harness.FromShard(0, harness.Answer(0, first[0], block, 4));
  harness.Serve(1, 5);  // this shard is ahead: version 4 can no longer be read whole
  CHECK_FALSE(harness.core->answered());
  harness.Serve(0, 4);
  harness.Serve(1, 5);
  REQUIRE(harness.parked.size() == 2);
  CHECK(harness.parked[0].version == Version{6});
  harness.FromShard(0, harness.Answer(0, first[0], 0, 4));  // late
  harness.ServeAll(6);
  REQUIRE(harness.core->reading());
  CHECK(harness.core->reading()->step == Step{6});
  CHECK(harness.ShowsOnly(6));
}

TEST_CASE("a reader that is too late tries again, and shows nothing before it has a version", "[client][reader]") {
  ReaderHarness harness;
  harness.Meet(0).Ask();
  harness.FromCoordinator(harness.MakeView(0));
  for (const std::uint64_t step : {1, 4, 8}) {
    harness.parked.clear();
    harness.Serve(0, step);
    CHECK(harness.core->array(0) == nullptr);
    CHECK_FALSE(harness.core->answered());
  }
  harness.parked.clear();
  harness.Tick(milliseconds(200));
  harness.ServeAll(9);
  REQUIRE(harness.core->reading());
  CHECK(harness.core->reading()->done);
  CHECK(harness.ShowsOnly(9));
}

TEST_CASE("a reader whose questions come too late asks further ahead, not beyond the last version",
          "[client][reader]") {
  ReaderHarness harness;
  harness.Meet(0).Ask();
  harness.FromCoordinator(harness.MakeView(0));
  std::vector<std::uint64_t> asked;
  for (const std::uint64_t step : {1, 3, 6, 9}) {
    harness.out.Clear();
    harness.FromShard(0, harness.Refusal(0, Code::kStale, step));
    for (const Pull& pull : harness.Pulls(0)) asked.push_back(pull.version.value);
  }
  CHECK(asked == std::vector<std::uint64_t>{2, 5, 9});  // one ahead, two, and four would be more than there are
}

TEST_CASE("a job that stands still gives its present version to one that waits for a later one", "[client][reader]") {
  ReaderHarness harness;
  harness.Meet(0).Ask();
  harness.FromCoordinator(harness.MakeView(0));
  harness.ServeAll(1);
  CHECK(harness.parked.size() == 2);  // for version 2
  harness.FromCoordinator(harness.MakeView(1));
  for (int i = 0; i < 25; ++i) {
    harness.Tick(milliseconds(100));
    harness.FromCoordinator(harness.MakeView(1));
  }
  harness.parked.clear();
  harness.ServeAll(1);
  REQUIRE(harness.core->reading());
  CHECK(harness.ShowsOnly(1));
}

TEST_CASE("answers that are lost are asked for again", "[client][reader]") {
  ReaderHarness harness;
  harness.Meet(4).Ask();
  harness.out.Clear();
  harness.Tick(milliseconds(600));
  CHECK(harness.Take<Heartbeat>(kJobCoordinator).size() == 1);
  harness.FromCoordinator(harness.MakeView(4));
  harness.Pulls(1);  // lost
  harness.Serve(0, 4);
  harness.Tick(seconds(2));
  harness.ServeAll(4);
  CHECK(harness.ShowsOnly(4));
}

TEST_CASE("a version newer than one that is known waits at the shards for the step's end", "[client][reader]") {
  ReaderHarness harness;
  harness.Meet(4).Ask(4);
  harness.FromCoordinator(harness.MakeView(4));
  harness.ServeAll(4);
  CHECK(harness.parked.size() == 2);
  CHECK_THAT(harness.core->WaitingFor(), Contains("end step 4"));
  harness.ServeAll(5);
  CHECK(harness.ShowsOnly(5));

  harness.Ask(8);  // beyond the job's progress: no shard is asked in vain
  harness.FromCoordinator(harness.MakeView(6));
  CHECK(harness.Pulls(0).empty());
  harness.FromCoordinator(harness.MakeView(9));
  harness.ServeAll(9);
  REQUIRE(harness.core->reading());
  CHECK(harness.core->reading()->done);  // the shards report it as the last version
  CHECK(harness.ShowsOnly(9));
}

TEST_CASE("the last version stays, and there is nothing newer", "[client][reader]") {
  ReaderHarness harness;
  harness.Meet(8).Ask();
  harness.FromCoordinator(harness.MakeView(8));
  harness.Serve(0, 9);
  harness.Serve(1, 9);
  harness.ServeAll(9);
  CHECK(harness.parked.empty());  // no version follows
  REQUIRE(harness.core->reading());
  CHECK(harness.core->reading()->done);
  CHECK(harness.ShowsOnly(9));
  CHECK(harness.Take<Leave>(kJobCoordinator).size() == 1);
  harness.FromCoordinator(harness.MakeView(9));  // its members do not know it yet
  harness.out.Clear();
  harness.Ask(9);
  CHECK(harness.core->answered());
  CHECK_FALSE(harness.core->reading());
  CHECK(harness.core->array(0) == nullptr);
  CHECK(harness.out.envelopes.empty());  // no shard is asked: the servers may have ended
}

TEST_CASE("one that has not read the last version hears of the job's end that nothing is newer", "[client][reader]") {
  ReaderHarness harness;
  harness.Meet(9).Ask(9);
  harness.FromCoordinator(harness.MakeView(9));  // all is committed, and its members do not know yet
  CHECK_FALSE(harness.core->answered());
  harness.FromCoordinator(harness.MakeView(9, JobPhase::kDone));
  CHECK(harness.core->answered());
  CHECK_FALSE(harness.core->reading());
  CHECK(harness.Take<Leave>(kJobCoordinator).size() == 1);
}

TEST_CASE("a reader that knows of a job's end asks a coordinator no more, other than for the last version",
          "[client][reader]") {
  ReaderHarness harness;
  harness.Meet(8).core->Refresh();
  harness.FromCoordinator(harness.MakeView(9, JobPhase::kDone));  // the answer to how far the job is
  SECTION("which is had already") {
    harness.Ask(9);
    CHECK(harness.core->answered());
    CHECK_FALSE(harness.core->reading());
    CHECK(harness.core->status().ok());
    CHECK(harness.Take<Leave>(kJobCoordinator).size() == 1);
  }
  SECTION("which is not had") {
    harness.Ask(8);
    const Instant asked = harness.now;
    CHECK_FALSE(harness.AnsweredInSilence());
    CHECK(harness.now - asked <= seconds(21));  // two leases: the coordinator ends with the job
    CHECK_THAT(harness.core->status().message(), Contains("here:1") && Contains("the job was done"));
  }
}

TEST_CASE("the silence of a coordinator is an error while the job may go on", "[client][reader]") {
  ReaderHarness harness;
  std::uint64_t read = 9;
  SECTION("at a version that is not the last") {
    read = 4;
    harness.Meet(4).Ask();
    harness.FromCoordinator(harness.MakeView(4));
    harness.ServeAll(4);
    REQUIRE(harness.ShowsOnly(4));
  }
  SECTION("after a lost shard has taken back the last step") {
    harness.ReadLast();
    harness.generation = Generation{2};
    harness.core->Refresh();
    harness.FromCoordinator(harness.MakeView(7));
  }
  SECTION("while a shard is lost after the last step") {
    harness.ReadLast();
    harness.core->Refresh();
    harness.FromCoordinator(harness.MakeView(9, JobPhase::kGathering));
  }
  harness.Ask(read);
  CHECK_FALSE(harness.AnsweredInSilence());
  CHECK(harness.core->status().code() == Code::kUnreachable);
  CHECK_THAT(harness.core->status().message(), Contains("here:1") && !Contains("the job was done"));
}

TEST_CASE("a job that fails after its last step says so to one that has read it", "[client][reader]") {
  ReaderHarness harness;
  harness.ReadLast();
  View failed = harness.MakeView(9, JobPhase::kFailed);
  failed.message = "the disk is full";
  harness.core->Refresh();
  harness.FromCoordinator(failed);
  harness.Ask(9);
  CHECK_FALSE(harness.core->answered());
  harness.FromCoordinator(failed);
  CHECK_THAT(harness.core->status().message(), Contains("the disk is full"));
}

TEST_CASE("another generation in the middle of a reading begins it again", "[client][reader]") {
  ReaderHarness harness;
  harness.Meet(4).Ask();
  harness.FromCoordinator(harness.MakeView(4));
  harness.Serve(0, 4);
  const Pull old = harness.Pulls(1).at(0);
  harness.generation = Generation{2};  // the job went back to version 3
  harness.Tick(milliseconds(200));
  harness.Serve(0, 3);
  for (BlockIndex block : old.blocks) harness.FromShard(1, harness.Answer(1, old, block, 4));
  CHECK_FALSE(harness.core->answered());
  View recovering = harness.MakeView(3, JobPhase::kGathering);
  recovering.shards.clear();
  harness.FromCoordinator(recovering);
  CHECK_THAT(harness.core->WaitingFor(), Contains("the job to start"));
  harness.out.Clear();
  harness.FromCoordinator(harness.MakeView(3));
  harness.ServeAll(3);
  REQUIRE(harness.core->reading());
  CHECK(harness.core->reading()->generation == Generation{2});
  CHECK(harness.ShowsOnly(3));
}

TEST_CASE("a shard that has moved is connected to again", "[client][reader]") {
  ReaderHarness harness;
  harness.Meet(4).Ask();
  harness.FromCoordinator(harness.MakeView(4));
  harness.generation = Generation{2};
  View moved = harness.MakeView(4);
  moved.shards[1].endpoint = "shard-5";
  harness.out.Clear();
  harness.FromCoordinator(moved);
  CHECK(harness.disconnected == std::vector<PeerId>{{101}});
  CHECK(harness.Pulls(5).size() == 1);
}

TEST_CASE("without global steps each block is as new as it is, and the step a bound", "[client][reader]") {
  ReaderHarness harness("async");
  harness.Meet(3).Ask(3);
  harness.FromCoordinator(harness.MakeView(3));
  CHECK(harness.Pulls(0).empty());  // no shard has a newer one for certain
  harness.Take<Heartbeat>(kJobCoordinator);
  harness.Tick(milliseconds(60));
  CHECK(harness.Take<Heartbeat>(kJobCoordinator).size() == 1);  // soon, as no pull waits
  harness.FromCoordinator(harness.MakeView(5));
  for (int round = 0; round < 4; ++round) {
    for (ShardIndex shard : {0U, 1U}) {
      for (const Pull& pull : harness.Pulls(shard)) {
        CHECK(pull.version == Version{5});
        for (BlockIndex block : pull.blocks) harness.FromShard(shard, harness.Answer(shard, pull, block, 7 + shard));
      }
    }
  }
  REQUIRE(harness.core->reading());
  CHECK(harness.core->reading()->step == Step{5});
  CHECK_FALSE(harness.core->reading()->done);
  CHECK(harness.core->array(0)[0] == ReaderHarness::Value(7, 0));
  CHECK(harness.core->array(0)[4] == ReaderHarness::Value(8, 0));
}

TEST_CASE("a call that is made again goes on with what has come", "[client][reader]") {
  ReaderHarness harness;
  harness.Meet(4).Ask();
  harness.FromCoordinator(harness.MakeView(4));
  harness.Serve(0, 4);
  harness.Serve(0, 4);
  harness.Serve(1, 4);
  harness.Ask();
  harness.Tick(milliseconds(200));
  harness.FromCoordinator(harness.MakeView(4));
  CHECK(harness.Pulls(0).empty());
  harness.Tick(milliseconds(200));
  harness.ServeAll(4);
  CHECK(harness.ShowsOnly(4));
}

TEST_CASE("a job that fails, another job, and a coordinator that is silent end a call in words", "[client][reader]") {
  ReaderHarness harness;
  harness.Meet(4).Ask();
  View failed = harness.MakeView(4, JobPhase::kFailed);
  failed.message = "nobody came";
  harness.FromCoordinator(failed);
  CHECK(harness.core->status().code() == Code::kRefused);
  CHECK_THAT(harness.core->status().message(), Contains("nobody came"));
  harness.core->Refresh();  // the job's progress may still be asked
  harness.FromCoordinator(failed);
  CHECK(harness.core->status().ok());
  CHECK(harness.core->view().phase == JobPhase::kFailed);

  harness.Ask();
  View other = harness.MakeView(4);
  other.job = JobId{3, 4};
  harness.FromCoordinator(other);
  CHECK_THAT(harness.core->status().message(), Contains("another job"));

  harness.Ask();
  for (int i = 0; i < 620 && harness.core->status().ok(); ++i) harness.Tick(seconds(1));
  CHECK(harness.core->status().code() == Code::kUnreachable);
  CHECK_THAT(harness.core->status().message(), Contains("here:1"));
}

TEST_CASE("a block that never matches its hash ends the call, and the next one begins again", "[client][reader]") {
  ReaderHarness harness;
  harness.Meet(4).Ask();
  harness.FromCoordinator(harness.MakeView(4));
  const Pull pull = harness.Pulls(0).at(0);
  Message bad = harness.Answer(0, pull, 0, 4);
  bad.header.Get<Weights>().payload_hash ^= 1;
  for (unsigned i = 0; i <= WeightsReader::kDamagedMax; ++i) harness.FromShard(0, bad);
  CHECK(harness.core->status().code() == Code::kCorrupt);
  harness.out.Clear();
  harness.Ask();
  harness.FromCoordinator(harness.MakeView(4));
  harness.ServeAll(4);
  CHECK(harness.ShowsOnly(4));
}

TEST_CASE("neither coordinator nor shard can crash a reader, or have it show what no shard sent", "[client][hostile]") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    ReaderHarness harness(seed % 2 == 0 ? "sync" : "async");
    testing::HostileMessages hostile(seed, {1, {50, 51, 49}, {0, 1, 2, 4}, {0, 16, 16}, {1, 2}});
    harness.Meet(1);
    for (int i = 0; i < 400; ++i) {
      harness.Ask(hostile.Chance(50) ? std::optional<std::uint64_t>() : hostile.random().Below(3), hostile.Chance(50));
      if (hostile.Chance(30)) harness.FromCoordinator(harness.MakeView(harness.core->view().step.value));
      Message message = hostile.Make();
      if (hostile.Chance(30)) message = hostile.Spoil(harness.MakeView(1 + hostile.random().Below(2)));
      for (const Pull& pull : harness.Pulls(0)) {
        if (pull.blocks.empty() || !hostile.Chance(50)) continue;
        Message sound = harness.Answer(0, pull, pull.blocks[0], pull.version.value);
        message = hostile.Spoil(std::move(sound.header));
      }
      if (hostile.Chance(30)) {
        harness.FromCoordinator(std::move(message.header));
      } else {
        harness.FromShard(static_cast<ShardIndex>(hostile.random().Below(3)), std::move(message));
      }
      if (hostile.Chance(10)) harness.Tick(milliseconds(700));
      (void)harness.core->WaitingFor();
      CHECK((harness.core->reading() || harness.core->array(0) == nullptr));
      harness.out.Clear();
    }
  }
}

}  // namespace capstan::client
