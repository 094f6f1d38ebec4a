// A shard and any messages from a coordinator, workers and other shards: it ends by none of them, and each message that
// it sends can be encoded. The first byte chooses the job's mode and where it stands.
#include "tests/fuzz/frames.h"
#include "tests/fuzz/target.h"
#include "tests/server/shard_bench.h"

namespace capstan::fuzz {
namespace {

using server::ShardBench;
using server::ShardBenchOptions;

ShardBenchOptions OptionsFrom(char choice) {
  ShardBenchOptions options;
  if ((choice & 1) != 0) options.mode = (choice & 2) == 0 ? Mode::kAsync : Mode::kAllReduce;
  if ((choice & 1) == 0 && (choice & 2) != 0) options.optimizer = OptimizerKind::kLamb;
  if (options.mode == Mode::kAsync && (choice & 4) != 0) options.acknowledge = Acknowledge::kDurable;
  return options;
}

void Deliver(ShardBench* bench, const Frame& frame) {
  if (frame.later) bench->Tick(std::chrono::milliseconds(500));
  if (frame.from == 0) return bench->FromCoordinator(frame.message.header);
  const PeerId peer = frame.from < 4 ? PeerId{1ULL + frame.from} : ShardBench::PeerOf(frame.from % 4U);
  bench->FromWorker(frame.message.header, frame.message.payload, peer);
}

void RunShard(std::string_view bytes) {
  if (bytes.empty()) return;
  ShardBench bench(OptionsFrom(bytes[0]));
  if ((bytes[0] & 8) == 0) bench.Start();
  for (const Frame& frame : FramesIn(bytes.substr(1))) {
    Deliver(&bench, frame);
    for (std::uint64_t peer = 1; peer < 16; ++peer) RequireSendable(bench.TakeAll(PeerId{peer}));
    bench.Forget();
  }
}

const Registered shard_target({"shard", RunShard});

}  // namespace
}  // namespace capstan::fuzz
