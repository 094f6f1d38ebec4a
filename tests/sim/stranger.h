// Stranger: a process in a simulated cluster that is no part of the job. It knows what anybody can learn from the
// coordinator, and claims other processes' places, other models, ranks, slots and losses.
//
// Kind:   owned by the cluster.
#pragma once

#include "common/base/random.h"
#include "common/data/catalog.h"
#include "common/wire/actor.h"
#include "tests/sim/mutants.h"

namespace capstan::sim {

class Stranger {
 public:
  struct Settings {
    JobId job;
    const std::vector<TensorSpec>* tensors = nullptr;
    SlotIndex slots = 0;
    RandomStream* random = nullptr;
  };
  explicit Stranger(Settings settings) : settings_(settings) {}

  // Sends one message. `config_hash`: of the job's present configuration.
  void Act(const World& world, std::uint64_t config_hash, Outbox* out);
  void Handle(const Message& message);

  // Makes a Hello for an index, as a shard of this incarnation would send it.
  static Hello MakeHello(const World& world, JobId job, std::uint64_t config_hash, ShardIndex shard,
                         Incarnation incarnation);

 private:
  Header Choose(const World& world, std::uint64_t config_hash);
  Header MakeJoin(std::uint64_t kind) const;
  Header MakeBeat(const World& world) const;

  const Settings settings_;
  SessionId session_;
};

}  // namespace capstan::sim
