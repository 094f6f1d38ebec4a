// Checks: invariants that must hold after every event of a simulated cluster.
//
// Kind:   owned by the cluster.
// Why:    a violation is named where it happens, not where it is noticed. The names I1 to I7 are the protocol's.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "monitoring/metrics.h"
#include "server/storage/shard_identity.h"
#include "tests/sim/cluster.h"
#include "tests/sim/disk.h"
#include "tests/sim/replica_checks.h"

namespace capstan {
class Header;
struct Commit;
struct Push;
}  // namespace capstan

namespace capstan::session {
struct RoundWork;
}  // namespace capstan::session

namespace capstan::server {
class Coordinator;
class Shard;
}  // namespace capstan::server

namespace capstan::sim {

class Checks {
 public:
  Checks(const ClusterOptions& options, Outcome* outcome);
  ~Checks();

  // `shards`: null for a dead shard.
  void See(const server::Coordinator* coordinator, const std::vector<const server::Shard*>& shards,
           const std::vector<SimDisk>& disks);
  void Take(std::vector<StepRecord> records);
  // Sync: the version that `step` begins with has had this many updates, as a Commit or a worker reports.
  void SeeUpdates(Step step, std::uint64_t updates);
  // Call it when the number of shards changes.
  void ForgetShards() {
    digests_.clear();
    seen_.clear();
  }
  void EveryPushCountedOnce(const std::vector<const server::Shard*>& shards);
  // Takes the final metrics of a process that has ended.
  void Add(const monitoring::CoordinatorMetrics& metrics);
  void Add(const monitoring::ShardMetrics& metrics);

  // A shard of this incarnation has counted this push, as it was sent. `before`: the shard's version then.
  void PushCounted(const server::Shard& shard, Incarnation incarnation, std::size_t index, Version before,
                   const Push& push);

  // A worker received this block and computes with it.
  void HandedOver(Version version, BlockIndex index, const Slice& payload, Encoding weights);

  // A follower has read this version; `weights` are in catalog order.
  void Followed(Version version, const float* weights);
  // Checks that a worker that is behind takes up the present step, instead of going through the steps that are over.
  void SeePassed(std::uint64_t node, const session::RoundWork& work, const Header& to_worker);

  // Null except in mode allreduce.
  ReplicaChecks* replicas() { return replicas_.get(); }

  // With durable acknowledgements: what a shard acknowledges, it has for as long as the timeline lasts.
  void Acknowledged(std::size_t index, TimelineId timeline, const Header& header);
  // A timeline may only end after an event that it cannot survive, and a log line must report it.
  void MayGoBack() { may_go_back_ = true; }
  void SaidLost() { ++said_lost_; }

  // A trace line for this message.
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
  void SeeTimeline(const server::Coordinator& coordinator);
  void SeeCommit(Commit commit);
  void SeeDisks(const std::vector<SimDisk>& disks);
  void SeeManifest(const server::Coordinator& coordinator, const std::vector<SimDisk>& disks);

  const ClusterOptions& options_;
  Outcome* const outcome_;
  const Catalog catalog_;
  std::unique_ptr<ReplicaChecks> replicas_;
  std::vector<std::uint32_t> founders_;  // kinds of first weights with which this job may have begun
  std::map<std::pair<Generation, Step>, std::unique_ptr<const Commit>> commits_;
  std::map<std::pair<std::size_t, Version>, std::uint64_t> digests_;                    // hash of a shard's state
  std::map<std::pair<Version, BlockIndex>, std::vector<float>> published_;              // sync: weights
  std::map<std::size_t, std::pair<Generation, Version>> seen_;                          // by shard
  std::map<std::size_t, server::ShardIdentity> identities_;                             // by disk
  std::map<std::tuple<std::size_t, Generation, BlockIndex, SlotIndex>, Step> counted_;  // async: the newest counted
  std::map<Step, double> losses_;
  std::map<std::uint64_t, std::set<Step>> walked_;  // by worker: finished steps it went through since it last had work
  std::map<Step, std::uint64_t> updates_;           // of the version with which the step begins
  Term term_;
  Generation generation_;
  // With durable acknowledgements.
  struct Promises {
    TimelineId timeline;
    std::map<std::pair<BlockIndex, SlotIndex>, SequenceNumber> pushes;  // newest sequence number acknowledged
    std::map<SlotIndex, SequenceNumber> clocks;
    std::uint64_t records = 0;  // log records when last checked
  };
  std::map<std::size_t, Promises> promises_;                                                 // by shard
  std::map<std::tuple<std::size_t, TimelineId, std::uint64_t>, std::uint64_t> log_digests_;  // state after that record
  TimelineId timeline_;  // the coordinator's, once it was running
  bool may_go_back_ = false;
  std::uint64_t said_lost_ = 0;
};

}  // namespace capstan::sim
