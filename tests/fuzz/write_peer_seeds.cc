// Writes the inputs from which fuzzing of the cores starts: what sound peers send in a step or two.
//
//   write_peer_seeds CORPUS
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/client/session_bench.h"
#include "tests/fuzz/frames.h"
#include "tests/server/coordinator_bench.h"
#include "tests/server/shard_bench.h"

namespace capstan::fuzz {
namespace {

constexpr std::string_view kValues("\0\0\200?\0\0\200?\0\0\200?\0\0\200?", 16);  // four times 1.0F

class SeedFolder {
 public:
  SeedFolder(const std::filesystem::path& corpus, const std::string& target) : path_(corpus / target) {
    std::filesystem::create_directories(path_);
  }
  // `choice`: the first byte, which the target explains.
  void Write(const std::string& name, char choice, const std::string& frames) const {
    std::ofstream out(path_ / name, std::ios::binary);
    out << choice << frames;
    CAPSTAN_CHECK(out.good());
  }

 private:
  const std::filesystem::path path_;
};

Beat SomeBeat() {
  Beat beat;
  beat.session = SessionId{1};
  beat.nonce = 1;
  beat.generation = Generation{1};
  return beat;
}

void WriteCoordinatorSeeds(const SeedFolder& folder) {
  server::CoordinatorBench bench;
  bench.Run();
  const Join join = bench.MakeJoin("w2", 1);
  std::string hellos, step;
  for (std::uint8_t shard = 0; shard < 2; ++shard) {
    Hello hello = bench.shards[shard].hello;
    hello.term = Term{1};
    hellos += FrameOf(shard, hello);
    step += FrameOf(shard, bench.MakePrepared(shard, 0));
  }
  for (std::uint8_t shard = 0; shard < 2; ++shard) {
    step += FrameOf(shard, Committed{shard, bench.shards[shard].hello.incarnation, Generation{1}, Step{0}});
  }
  const std::string beat = FrameOf(2 | kFrameLater, SomeBeat());
  folder.Write("step", 0, step + beat);
  folder.Write("join", 4, hellos + FrameOf(2, join) + FrameOf(3, bench.MakeJoin("w3", 1)) + beat);
  folder.Write("leave", 0, FrameOf(2, join) + FrameOf(2, Leave{SessionId{1}, 1, "bye"}));
  folder.Write("snapshot", 0, step + FrameOf(0, bench.MakeDone(0, 1)) + FrameOf(1, bench.MakeDone(1, 1)));
  folder.Write("bad", 4, hellos + FrameOf(0, ResetBad{0, Incarnation{50}, Generation{1}, "lost"}));
  Progress progress{0, Incarnation{50}, Generation{1}, {1, 1}, {}};
  progress.reports.push_back({Step{1}, {}});
  folder.Write("progress", 1, FrameOf(0, progress) + FrameOf(kFrameLater, progress));
}

void WriteShardSeeds(const SeedFolder& folder) {
  server::ShardBench bench;
  const auto push = [&](std::uint64_t step, BlockIndex block, SlotIndex slot) {
    const std::string_view values = block < 2 ? kValues : kValues.substr(0, 8);
    return FrameOf(1 | kFrameHashed, bench.MakePush(step, block, {slot, slot + 1}, 1, {}), values);
  };
  std::string step;
  for (SlotIndex slot = 0; slot < 3; ++slot) {
    for (BlockIndex block = 0; block < 3; ++block) step += push(0, block, slot);
    step += FrameOf(1, bench.MakeEnd(0, slot));
  }
  folder.Write("step", 0, step + FrameOf(0, bench.MakeCommit(0)) + FrameOf(1, bench.MakePull(1, {0, 1, 2})));
  folder.Write("redo", 2,
               step + FrameOf(0, bench.MakeRedo(0, 1, 0.5F, {2, 3, 4})) + FrameOf(0, bench.MakeCommit(0, 1)));
  folder.Write("async", 1, push(1, 0, 0) + push(1, 1, 0) + FrameOf(1, bench.MakePull(0, {0})));
  folder.Write("durable", 5, push(1, 0, 0) + push(1, 1, 0) + FrameOf(kFrameLater, bench.MakePin(0)));
  folder.Write("snapshot", 0,
               FrameOf(0, bench.MakePin(0)) +
                   FrameOf(0, bench.MakeKept({{Generation{1}, Version{0}}}, {Generation{1}, Version{0}})) +
                   FrameOf(4, Fetch{{Generation{1}, Version{0}}, 0, 0}));
  folder.Write("reset", 8,
               FrameOf(0, Ping{Term{1}, Generation{1}}) + FrameOf(0, bench.MakeReset(1)) +
                   FrameOf(0, bench.MakeReset(2)) + FrameOf(0, Shutdown{Term{1}, Generation{2}}));
  const Assign assign{Generation{1}, Incarnation{7}, SessionId{1}, 0, 0, Step{0}, 0};
  folder.Write("assign", 3, FrameOf(1 | kFrameHashed, assign, kValues));
}

void WriteSessionSeeds(const SeedFolder& folder) {
  client::SessionBench bench;
  bench.Join({0, 1});
  std::string coverage, weights;
  for (std::uint8_t shard = 0; shard < 2; ++shard) coverage += FrameOf(shard, bench.MakeCoverage(shard, 0));
  for (BlockIndex block = 0; block < 4; ++block) {
    Weights header;
    header.generation = Generation{1};
    header.incarnation = Incarnation{50 + block % 2};
    header.block = block;
    weights += FrameOf(static_cast<std::uint8_t>(block % 2 | kFrameHashed), header, kValues);
  }
  folder.Write("round", 0, coverage + weights);
  folder.Write("async", 1, coverage + weights);
  View view = bench.MakeView({2, 3});
  view.sequence = 9;
  folder.Write("view", 0, FrameOf(2, view) + coverage + FrameOf(0, bench.MakeError(0, Code::kStale, 0)));
  view.job_file = "[job]\nsteps = 10\nglobal_batch = 8\n[model]\nkind = \"mlp\"\n[data]\nkind = \"synthetic\"\n";
  view.catalog = server::CoordinatorBench::Tensors();
  folder.Write("job-file", 4, FrameOf(2, view));
  view.group = {{SessionId{7}, "w", "address"}, {SessionId{8}, "w1", ""}};
  folder.Write("group", 3, FrameOf(2 | kFrameLater, view) + coverage);
  view.phase = JobPhase::kFailed;
  view.message = "because";
  folder.Write("failed", 0, FrameOf(2, view));
  Published published;
  published.generation = Generation{1};
  published.incarnation = Incarnation{50};
  folder.Write("published", 0, coverage + FrameOf(0, published) + weights);
}

}  // namespace
}  // namespace capstan::fuzz

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "write_peer_seeds CORPUS\n"), 2;
  capstan::fuzz::WriteCoordinatorSeeds({argv[1], "coordinator"});
  capstan::fuzz::WriteShardSeeds({argv[1], "shard"});
  capstan::fuzz::WriteSessionSeeds({argv[1], "session"});
  return 0;
}
