// Checks: invariants that must hold after every event of a simulated cluster.
//
// Kind:   owned by the cluster.
// Why:    a violation is reported at the event that causes it, not when the weights turn out wrong. I1 to I8 are the
//         invariants in docs/explanation/design/protocol.md.
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
struct Message;
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

  // Checks the state after an event. An entry of `shards` is null while that shard is dead.
  void See(const server::Coordinator* coordinator, const std::vector<const server::Shard*>& shards,
           const std::vector<SimDisk>& disks);
  void Take(std::vector<StepRecord> records);
  // `updates`: how many updates the version with which `step` begins has had. All Commits and workers must report the
  // same number.
  void SeeUpdates(Step step, std::uint64_t updates);
  // Forgets what was seen of each shard. Call when the number of shards changes.
  void ForgetShards() {
    digests_.clear();
    seen_.clear();
  }
  void EveryPushCountedOnce(const std::vector<const server::Shard*>& shards);
  // Adds a process's metrics to the counts of the outcome. Call when the process or the job ends.
  void Add(const monitoring::CoordinatorMetrics& metrics);
  void Add(const monitoring::ShardMetrics& metrics);

  // Call when a shard of this incarnation has staged or applied this push. `before`: the shard's version until then.
  void PushCounted(const server::Shard& shard, Incarnation incarnation, std::size_t index, Version before,
                   const Push& push);

  // Call when a worker's application has received this block, to compute with it. `weights`: the job's encoding.
  void HandedOver(Version version, BlockIndex index, const Slice& payload, Encoding weights);

  // External: call when a program has made or loaded this version. All programs must have the same.
  void ProgramMade(Version version, const std::vector<float>& weights, const std::string& state);

  // Call when the follower has read this version. `weights`: in catalog order.
  void Followed(Version version, const float* weights);
  // Checks that a worker that is behind goes on with the present step, and does not go through all steps that are over.
  void SeePassed(std::uint64_t node, const session::RoundWork& work, const Header& to_worker);

  // Call when a process that knows no secret of the job gets this message.
  void ToStranger(const Message& message);

  // Null except in mode allreduce.
  ReplicaChecks* replicas() { return replicas_.get(); }

  // With durable acknowledgements: notes what this message of shard `index` acknowledges. The shard must have it for as
  // long as the timeline lasts.
  void Acknowledged(std::size_t index, TimelineId timeline, const Header& header);
  // With durable acknowledgements a timeline may end only after MayGoBack(), which notes an event that can destroy logs
  // or snapshots, and after SaidLost(), which notes that a log line reports the loss.
  void MayGoBack() { may_go_back_ = true; }
  void SaidLost() { ++said_lost_; }

  // Returns the message's type and main numbers, for a trace.
  static std::string Describe(const Header& header);

 private:
  void Fail(std::string what) {
    if (outcome_->violation.empty()) outcome_->violation = std::move(what);
  }
  void SeeShard(std::size_t index, const std::vector<const server::Shard*>& shards);
  void SeePublished(const server::Shard& shard, const std::vector<const server::Shard*>& shards);
  void SeeWeights(const server::Shard& shard);
  void SeeProgramsVersion(const server::Shard& shard);
  bool is_external() const { return options_.optimizer == OptimizerKind::kExternal; }
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
  std::map<Version, std::pair<std::vector<float>, std::string>> made_;                  // external: by programs
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
