// ReplicaChecks: invariants of mode allreduce, where the workers have the weights. Each committed version is computed
// again here, from the version before it and the sum of all slots' gradients, added in the order of the group that made
// the version.
//
// Kind:   owned by the cluster's checks.
// Why:    the bits of a version depend on the group that made it. So a version is identified together with its
//         timeline, and what a process uses as that version is compared with the committed one.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/cluster.h"
#include "tests/sim/ring_board.h"
#include "worker/allreduce/replica.h"

namespace capstan::server {
class Shard;
}  // namespace capstan::server

namespace capstan::sim {

class ReplicaChecks {
 public:
  ReplicaChecks(const ClusterOptions& options, const Catalog& catalog, std::function<void(std::string)> fail);

  void See(const std::vector<const server::Shard*>& shards, const RingBoard& board);
  // Call when the follower has read these weights, in catalog order.
  void Followed(Version version, const float* weights);
  // Call when a worker begins to compute with these arrays as this version.
  void ComputesWith(Generation generation, Version version, const Arrays& arrays);
  // Call when a worker has computed this version; a Commit has yet to confirm it.
  void Made(Generation generation, Version version, const Arrays& arrays);
  // Returns the arrays that a worker reads from the shards as this version. All shards serve this generation.
  Arrays Read(const std::vector<const server::Shard*>& shards, Generation generation, Version version);

 private:
  struct Truth {
    Arrays arrays;
    std::uint64_t updates = 0;
  };
  using Name = std::pair<TimelineId, Version>;

  void BeginTimeline(TimelineId timeline, const std::vector<const server::Shard*>& shards);
  void SeeCommit(const server::Shard& shard, const RingBoard& board);
  void SeeUploaded(const server::Shard& shard);
  const RingGroup* GroupThatMade(Generation generation, Step step, std::size_t* index, const RingBoard& board);
  void CheckSlots(const RingPart& all, Step step);
  Truth Make(const Truth& before, const RingGroup::Parts& parts, Step step, StepAction action);
  Arrays Stored(const std::vector<const server::Shard*>& shards) const;
  static bool Holds(const server::Shard& shard);

  const ClusterOptions& options_;
  const Catalog& catalog_;
  const JobConfig config_;
  const std::function<void(std::string)> fail_;
  train::Replica replica_;
  std::map<Name, Truth> truths_;
  std::vector<float> followed_first_;  // version 0 as followers read it before the shards were seen with it
  std::map<std::pair<Generation, Version>, Arrays> made_;       // as the first worker made it
  std::map<Generation, TimelineId> timeline_of_;                // timeline of each generation
  std::map<std::size_t, std::pair<Generation, Version>> seen_;  // by shard
};

}  // namespace capstan::sim
