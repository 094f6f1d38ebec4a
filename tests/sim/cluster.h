// Cluster: a whole job in one process: the real cores, a seeded network that loses, repeats, delays and reorders, and
// processes that die and come back. Time is simulated; nothing here waits.
//
// Kind:   owned by one thread.
// Why:    the final weights must be those of the undisturbed run, bit for bit. That one check sees any
//         contribution that is missing, doubled, stale, torn or added in another order.
#pragma once

#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "common/random.h"
#include "server/coordinator.h"
#include "server/shard.h"
#include "worker/client/session.h"
#include "worker/client/slot_sums.h"

namespace capstan::sim {

struct ClusterOptions {
  std::uint64_t seed = 1;
  Mode mode = Mode::kSync;
  std::uint32_t shards = 2;
  std::uint32_t workers = 2;
  SlotIndex slots = 3;
  std::uint64_t steps = 6;
  std::uint32_t block_elements = 4;
  std::uint32_t window_blocks = 16;
  std::vector<std::int64_t> tensor_sizes = {3, 9, 1, 5};
  double clip_norm = 0.0;
  bool empty_slots = false;  // some slots have no samples at some steps
  // Faults, until `calm_after`; then the job must finish.
  double loss = 0.0, duplication = 0.0, late = 0.0;
  double worker_crashes = 0.0, coordinator_crashes = 0.0, shard_crashes = 0.0;  // expected number per simulated second
  double joins_and_leaves = 0.0;
  double worker_pauses = 0.0;  // a worker stands still, perhaps for longer than its lease
  Instant calm_after = std::chrono::seconds(20);
  Instant give_up_after = std::chrono::seconds(400);
};

struct Outcome {
  bool finished = false;
  std::string violation;       // empty: none
  std::vector<float> weights;  // flat space, final
  std::vector<server::StepRecord> records;
  std::uint64_t messages = 0, lost = 0, doubled = 0, crashes = 0, pauses = 0, generations = 0;
  Instant ended_at{};
};

Outcome RunCluster(const ClusterOptions& options);

}  // namespace capstan::sim
