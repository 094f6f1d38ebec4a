#include "tests/server/coordinator/coordinator_harness.h"

#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/wire/messages/commit.h"
#include "common/wire/messages/membership.h"
#include "common/wire/messages/prepared.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/snapshot_done.h"
#include "common/wire/messages/view.h"

namespace capstan::server {

CoordinatorHarness::CoordinatorHarness(std::uint32_t shard_count, std::uint32_t workers, Mode mode) {
  config.job.mode = mode;
  config.job.steps = 3;
  config.job.slots = config.job.global_batch = 2;
  config.optimizer.lr = 0.5;
  config.cluster.servers = shard_count;
  config.cluster.workers = config.cluster.min_workers = workers;
  for (ShardIndex i = 0; i < shard_count; ++i) {
    shards.push_back({PeerId{100 + i}, {}});
    shards[i].hello.shard = i;
    shards[i].hello.incarnation = Incarnation{50 + i};
    shards[i].hello.endpoint = "shard-" + std::to_string(i);
  }
}

void CoordinatorHarness::Run() {
  Live();
  ShardsEchoTerm();
  for (std::uint32_t i = 0; i < config.cluster.workers; ++i) Joins("w" + std::to_string(i));
  for (ShardIndex i = 0; i < shards.size(); ++i) AnswerReset(i);
  Forget();
}

View CoordinatorHarness::ViewOf(const Join& join) {
  const std::vector<View> views = Take<View>(PeerOf(join));
  if (!views.empty()) sessions_[PeerOf(join)] = views.back().session;
  return views.empty() ? View{} : views.back();
}

Heartbeat CoordinatorHarness::MakeHeartbeat(const Join& join) {
  ViewOf(join);
  Heartbeat beat;
  beat.session = sessions_[PeerOf(join)];
  beat.nonce = join.nonce;
  return beat;
}

Heartbeat CoordinatorHarness::MakeHeartbeat(const Join& join, std::uint64_t step, bool computing) {
  Heartbeat beat = MakeHeartbeat(join);
  beat.generation = Generation{1};
  beat.step = Step{step};
  beat.computing = computing;
  return beat;
}

Leave CoordinatorHarness::MakeLeave(const Join& join) {
  ViewOf(join);
  return {sessions_[PeerOf(join)], join.nonce, "test"};
}

void CoordinatorHarness::AnswerReset(ShardIndex shard) {
  Hello& hello = shards[shard].hello;
  hello.serving = true;
  hello.generation = coordinator->generation();
  const std::vector<RecoverRecord> recovered = Logged<RecoverRecord>();
  hello.version = recovered.empty() ? Version{} : recovered.back().snapshot.version;
  hello.last_commit.reset();
  hello.prepared.reset();
  Send(shards[shard].peer, ResetDone{shard, hello.incarnation, hello.generation});
}

void CoordinatorHarness::Commits(ShardIndex shard, const Commit& commit) {
  Hello& hello = shards[shard].hello;
  hello.version = Version{commit.step.value + 1};
  hello.last_commit = commit;
  hello.prepared.reset();
  Send(shards[shard].peer, Committed{shard, hello.incarnation, hello.generation, commit.step});
}

void CoordinatorHarness::DoStep(std::uint64_t step) {
  for (ShardIndex i = 0; i < shards.size(); ++i) Prepares(i, step);
  for (ShardIndex i = 0; i < shards.size(); ++i) {
    const std::vector<Commit> commits = TakeFromShard<Commit>(i);
    if (!commits.empty()) Commits(i, commits.back());
  }
}

SnapshotDone CoordinatorHarness::MakeDone(ShardIndex shard, std::uint64_t version) const {
  SnapshotDone done{
      shard,
      shards[shard].hello.incarnation,
      coordinator->term(),
      config.job.mode == Mode::kAllReduce ? FirstGeneration(coordinator->timeline()) : coordinator->generation(),
      Version{version},
      {},
      0,
      0,
      {}};
  done.parameters.updates = version;
  done.parameters.learning_rate = 0.25F;
  done.parameters.snapshot = true;
  done.digest = DigestOf({done.generation, done.version}, shard);
  done.bytes = 1000;
  return done;
}

void CoordinatorHarness::Keeps(ShardIndex shard, std::uint64_t version) {
  Send(shards[shard].peer, MakeDone(shard, version));
}

Prepared CoordinatorHarness::MakePrepared(ShardIndex shard, std::uint64_t step, double square,
                                          std::uint32_t attempt) const {
  Prepared prepared{shard, shards[shard].hello.incarnation, coordinator->generation(), Step{step}, attempt, {}};
  const std::size_t blocks = shards.size() == 1 ? 2 : shard < 2 ? 1 : 0;
  prepared.report.segment_squares.assign(blocks, square);
  if (TakesTrustRatio(config.optimizer.kind)) {
    prepared.report.weight_squares.assign(blocks, 4.0);
    prepared.report.direction_squares.assign(blocks, attempt == 0 ? 1.0 : 0.25);  // as if clipped to half
  }
  prepared.report.block_samples.assign(blocks, config.job.slots);
  for (SlotIndex slot = shard; slot < config.job.slots; slot += static_cast<SlotIndex>(shards.size())) {
    SlotReport report;
    report.slot = slot;
    report.samples = 1;
    report.predictions = 1;
    report.loss_sum = 2.0;
    prepared.report.slots.push_back(report);
  }
  return prepared;
}

}  // namespace capstan::server
