// Checks: what must hold after every event of a simulated cluster.
//
// Kind:   owned by the cluster.
// Why:    a violation is named where it happens, not where it is noticed. The names I2 to I7 are those of the
//         protocol's invariants.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "monitoring/metrics.h"
#include "server/storage/shard_life.h"
#include "tests/sim/cluster.h"
#include "tests/sim/disk.h"
#include "tests/sim/replica_checks.h"

namespace capstan {
class Header;
struct Commit;
struct Push;
}  // namespace capstan

namespace capstan::client {
struct Work;
}  // namespace capstan::client

namespace capstan::server {
class Coordinator;
class Shard;
}  // namespace capstan::server

namespace capstan::sim {

class Checks {
 public:
  Checks(const ClusterOptions& options, Outcome* outcome);
  ~Checks();

  // `shards`: null where one is dead.
  void See(const server::Coordinator* coordinator, const std::vector<const server::Shard*>& shards,
           const std::vector<SimDisk>& disks);
  void Take(std::vector<StepRecord> records);
  // Sync: a version has had so many updates, as a Commit or a worker has it.
  void SeeUpdates(Step step, std::uint64_t updates);
  // Another number of shards begins.
  void ForgetShards() {
    digests_.clear();
    seen_.clear();
  }
  void EveryPushCountedOnce(const std::vector<const server::Shard*>& shards);
  // Of a process that has ended: what it met.
  void Add(const monitoring::CoordinatorMetrics& metrics);
  void Add(const monitoring::ShardMetrics& metrics);

  // A shard in this life counted this push, as it was sent. `before`: the shard's version then.
  void PushCounted(const server::Shard& shard, Incarnation life, std::size_t index, Version before, const Push& push);

  // A worker was handed this block, and computes with it.
  void HandedOver(Version version, BlockIndex index, const Slice& payload, Encoding weights);

  // A follower has read this version, in the catalog's order.
  void Followed(Version version, const float* weights);
  // A worker that is behind takes up the present step, and does not walk there through those that are over.
  void SeePassed(std::uint64_t node, const client::Work& work, const Header& to_worker);

  // Of mode allreduce; null: another mode.
  ReplicaChecks* replicas() { return replicas_.get(); }

  // Level durable. A shard says that it has something: then it has it for as long as the history lasts.
  void Acknowledged(std::size_t index, Generation history, const Header& header);
  // A history ends where something happened that it cannot survive, and with a line that says so.
  void MayGoBack() { may_go_back_ = true; }
  void SaidLost() { ++said_lost_; }

  // A line for traces.
  static std::string Describe(const Header& header);

 private:
  void Fail(std::string what) {
    if (outcome_->violation.empty()) outcome_->violation = std::move(what);
  }
  void SeeShard(std::size_t index, const std::vector<const server::Shard*>& shards);
  void SeePublished(const server::Shard& shard, const std::vector<const server::Shard*>& shards);
  void SeeWeights(const server::Shard& shard);
  void SeeStaleness(const server::Shard& shard);
  void SeeFirstWeights(const server::Shard& shard);
  void SeeLogged(std::size_t index, const server::Shard& shard);
  void SeeHistory(const server::Coordinator& coordinator);
  void SeeCommit(Commit commit);
  void SeeDisks(const std::vector<SimDisk>& disks);
  void SeeManifest(const server::Coordinator& coordinator, const std::vector<SimDisk>& disks);

  const ClusterOptions& options_;
  Outcome* const outcome_;
  const Catalog catalog_;
  std::unique_ptr<ReplicaChecks> replicas_;
  std::vector<std::uint32_t> founders_;  // kinds of first weights that this job may have begun with
  std::map<std::pair<Generation, Step>, std::unique_ptr<const Commit>> commits_;
  std::map<std::pair<std::size_t, Version>, std::uint64_t> digests_;                    // of a shard's state
  std::map<std::pair<Version, BlockIndex>, std::vector<float>> published_;              // sync: weights
  std::map<std::size_t, std::pair<Generation, Version>> seen_;                          // by shard
  std::map<std::size_t, server::ShardLife> lives_;                                      // by disk
  std::map<std::tuple<std::size_t, Generation, BlockIndex, SlotIndex>, Step> counted_;  // async: the newest
  std::map<Step, double> losses_;
  std::map<std::uint64_t, std::set<Step>> walked_;  // by worker: steps that were over, since it last had work
  std::map<Step, std::uint64_t> updates_;           // of the version that the step begins with
  Term term_;
  Generation generation_;
  // Level durable.
  struct Promises {
    Generation history;
    std::map<std::pair<BlockIndex, SlotIndex>, std::uint64_t> pushes;  // newest sequence number acknowledged
    std::map<SlotIndex, std::uint64_t> clocks;
    std::uint64_t records = 0;  // of the log, when it was last looked at
  };
  std::map<std::size_t, Promises> promises_;                                                 // by shard
  std::map<std::tuple<std::size_t, Generation, std::uint64_t>, std::uint64_t> log_digests_;  // after that record
  Generation history_;  // of the coordinator, once it ran
  bool may_go_back_ = false;
  std::uint64_t said_lost_ = 0;
};

}  // namespace capstan::sim
