// Cluster: a whole job in one process: the real cores; a seeded network that loses, repeats, delays, reorders and
// splits; disks that are slow, full and damaged; and processes that die, pause and come back. Time is simulated;
// nothing here waits.
//
// Kind:   owned by one thread.
// Why:    in mode sync the final weights must be those of an undisturbed run, bit for bit. That one check notices any
//         gradient that is missing, counted twice, stale, torn or added in another order. Checks covers other modes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/aggregation.h"
#include "common/base/types.h"
#include "common/config/job/device.h"
#include "common/config/job/mode.h"
#include "common/config/job/optimizer_kind.h"
#include "update/verdict.h"

namespace capstan::sim {

struct ClusterOptions {
  std::uint64_t seed = 1;
  Mode mode = Mode::kSync;
  std::uint64_t staleness = 1;  // for mode bounded
  bool durable = false;         // durable acknowledgements; only without global steps
  std::size_t log_records_max = 64;
  bool local = false;  // workers of two machines; one per machine pushes for all; sync
  Aggregation aggregation = Aggregation::kMean;
  std::uint32_t shards = 2;
  std::uint32_t workers = 2;
  SlotIndex slots = 3;
  std::uint64_t steps = 6;
  std::uint32_t block_elements = 4;
  std::uint32_t window_blocks = 16;
  std::vector<std::int64_t> tensor_sizes = {3, 9, 1, 5};
  double clip_norm = 0.0;
  bool empty_slots = false;  // some slots have no samples at some steps
  bool groups = false;       // two parameter groups, whose hyper-parameters come with each push; since edition 4
  std::uint64_t snapshot_every_steps = 2;
  double snapshot_every_seconds = 0.0;
  // Faults. They end at `calm_after`; then the job must finish. A number without another comment is the expected number
  // of faults per simulated second.
  double loss = 0.0, duplication = 0.0, late = 0.0;  // probabilities of each message
  double worker_crashes = 0.0, coordinator_crashes = 0.0, shard_crashes = 0.0;
  double crashes_of_all = 0.0;  // every process at once, perhaps restarted with another number of shards
  double joins_and_leaves = 0.0;
  double worker_pauses = 0.0;  // a worker pauses, perhaps for longer than its lease
  double server_pauses = 0.0;  // a shard or the coordinator pauses
  double partitions = 0.0;     // some processes do not reach some others for a while, perhaps one way
  double zombies = 0.0;        // probability that a replaced coordinator goes on for a while
  double slow_disk = 0.0;      // probability that a piece of disk work takes up to two seconds
  double full_disks = 0.0;     // a disk is full for a while
  double damage = 0.0;         // a bit of the newest snapshot flips, at most once a run, if there is an older one
  // RandomOptions sets the following options since its edition 2.
  double damaged_payloads = 0.0;                  // probability that a bit of a payload flips in flight
  double repeated_late = 0.0;                     // probability that a message comes again, up to ten seconds later
  double replays = 0.0;                           // probability that a delivery also repeats an older message
  double clock_jumps = 0.0;                       // a process's clock jumps ahead
  double same_names = 0.0;                        // a second process joins under a name that is in use
  double clogs = 0.0;                             // some processes get nothing for a while, and then everything at once
  double slow_computing = 0.0;                    // probability that a worker computes for up to six seconds
  Instant slow_after = std::chrono::seconds(30);  // when a second worker computes the slots as well
  double aimed_crashes = 0.0;                     // probability that a process dies at a critical moment
  bool workers_stay_away = false;                 // when all are gone, none comes back at once
  bool full_disks_kill = false;                   // a shard that cannot store its identity ends, as in production
  double slow_log = 0.0;                          // probability that an append takes up to two seconds
  double failed_appends = 0.0;                    // probability that an append fails
  // Since edition 4.
  bool given = false;             // some tensors get first weights from a worker
  std::uint32_t given_kinds = 1;  // how many kinds of first weights the workers bring
  std::uint32_t given_from = 0;   // the first of these kinds
  Instant calm_after = std::chrono::seconds(20);
  Instant give_up_after = std::chrono::seconds(400);
  std::function<void(const std::string& line)> trace;  // one line for each event

  // Since edition 5.
  Precision precision = Precision::kFp32;  // of weights and gradients in flight
  bool statistics = false;                 // every other tensor is a statistic
  // Since edition 6.
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  // Since edition 7.
  // Whether there is a program state: a chain of hashes over the steps. Workers send it with every slot, or with the
  // last slot of a round.
  enum class ProgramState { kNone, kEverySlot, kLastSlot } program_state = ProgramState::kNone;
  // Since edition 8.
  double stops = 0.0;       // the job is stopped by request, and resumed
  bool follower = false;    // a reader follows the job to its last version
  double non_finite = 0.0;  // probability that a slot's gradient is infinite

  // Since edition 9.
  double strangers = 0.0;  // probability that a shard gets a forged message in front of a worker's or another shard's

  // Since edition 10.
  // Whether the program gives the limits by which steps are clipped. If so, its gradients also depend on the norm of
  // the step before.
  enum class ProgramClip { kNone, kNorm, kValue } program_clip = ProgramClip::kNone;

  bool unconnected = false;  // workers of a group never connect to each other

  // OldJob, SlowLines and ShareMemory set this option.
  bool in_order = false;  // messages from one process to another arrive in the order sent

  // For processes of one machine.
  bool shared_memory = false;  // payloads lie in their sender's memory until they arrive
  double given_up = 0.0;       // a process gives up a connection on which payloads are still to be copied

  // For old jobs.
  std::uint64_t compute_milliseconds = 60;  // per slot, at most
  std::uint64_t uneven = 1;                 // every other worker takes so many times as long
  std::size_t reports_max = SIZE_MAX;       // limit for a snapshot's header

  // For slow lines.
  double line_bytes_per_second = 0.0;        // from one process to another; 0: no limit
  std::size_t line_messages_max = SIZE_MAX;  // queued on a line; a worker's further messages are refused
  double payload_factor_max = 0.0;           // limit of payload bytes sent, as a multiple of those needed; 0: none
};

struct Mutant;

struct Outcome {
  bool finished = false;       // in time and without a violation
  std::string violation;       // empty: none
  std::vector<float> weights;  // final, flat
  std::vector<StepRecord> records;
  std::map<std::string, std::uint64_t> counts;  // of faults, and of the cases they caused
  Instant ended_at{};
  std::uint64_t events_hash = 0;  // over every message sent: time, sender, receiver, header, payload
};

// Runs the job until it ends or breaks a check. `mutant`: the rule to break; null: none.
Outcome RunCluster(const ClusterOptions& options, const Mutant* mutant = nullptr);

}  // namespace capstan::sim
