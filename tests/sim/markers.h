// Markers: counts which cases of CORNER_CASES.md a simulated job meets. It sees them from outside: by messages sent and
// delivered, by the cores' accessors, and by which process dies when.
//
// Kind:   owned by the cluster.
// Why:    runs that never met a case prove nothing about it; `marker_table.h` lists the cases that they must meet.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "common/data/reduction_tree.h"
#include "server/storage/push_log.h"
#include "server/storage/shard_disk.h"
#include "tests/sim/cluster.h"
#include "tests/sim/mutants.h"

namespace capstan {
struct Published;
struct Push;
struct Weights;
}  // namespace capstan

namespace capstan::sim {

class Markers {
 public:
  Markers(const ClusterOptions& options, Outcome* outcome) : options_(options), outcome_(outcome) {}

  void SentByCoordinator(const Envelope& envelope, bool zombie);
  void ToCoordinator(const World& world, const server::Coordinator& receiver, const Message& message);
  void ToShard(const World& world, std::uint64_t from, std::size_t index, const Message& message, bool from_zombie);
  // Call when a shard has staged or applied this push.
  void Staged(std::uint64_t from, std::size_t index, const Push& push);
  // Call when a shard got this push although it had that gradient already, from the same push or another.
  void Repeated(std::uint64_t from, const Push& push);
  void ToWorker(const World& world, std::uint64_t to, Generation generation, const Message& message);
  void WorkerDies(const World& world, std::uint64_t node, bool had_work);
  void WorkerStarts(const World& world);
  void ShardDies(const World& world, std::size_t index, bool writing);
  void CoordinatorDies(const World& world);
  void NoWorkers(const World& world);
  void Parted(const std::set<std::uint64_t>& from, const std::set<std::uint64_t>& to, std::size_t shards);
  void DiskWorked(const World& world, const server::DiskResult& result);
  void LogWorked(const server::LogResult& result);
  // Whether this push waits for the log or is being appended.
  static bool IsBeingLogged(const server::Shard& shard, Incarnation incarnation, const Message& message);
  void Stage(const World& world);  // call it after every event

 private:
  void Count(const char* what) { ++outcome_->counts[what]; }
  struct Pushes {  // of a worker's newest step
    Generation generation;
    Step step;
    std::set<std::size_t> shards;
  };
  using StepName = std::pair<Generation, Step>;
  struct Speculative {
    std::uint32_t attempt = 0;
    Term term;  // the coordinator's term then
  };
  void SeeSpeculative(const World& world, std::uint64_t to, Generation generation, const Weights& weights);
  void SeeSpeculative(const World& world, std::uint64_t to, Generation, const Published& published);

  const ClusterOptions& options_;
  Outcome* const outcome_;
  std::map<std::uint64_t, Pushes> pushes_;  // by worker
  std::map<StepName, Term> commit_terms_;   // first term that sent the Commit
  std::map<std::pair<StepName, std::uint32_t>, Term> redo_terms_;
  std::map<std::pair<StepName, BlockIndex>, std::map<Node, std::uint64_t>> nodes_;  // who pushed each node first
  std::map<std::uint64_t, Term> view_terms_;                                        // newest view's term, by worker
  std::uint64_t founder_ = 0;                                                       // newest founder and its generation
  Generation founder_generation_;
  std::map<std::tuple<Generation, BlockIndex, std::uint64_t>, Incarnation> assigned_;  // arrays sent to a shard
  std::map<std::pair<std::uint64_t, Version>, Speculative> speculative_;  // newest, by worker; not yet published
  StepName worker_died_at_, shard_died_at_;
  Term running_term_;                     // newest term that was seen running
  std::map<Generation, Term> ran_since_;  // and the first one of each generation
  bool redoing_ = false;
};

}  // namespace capstan::sim
