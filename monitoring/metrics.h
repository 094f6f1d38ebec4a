// ShardMetrics, CoordinatorMetrics, WorkerMetrics, TransportMetrics: all metrics, one struct per actor.
//
// Kind:   shared; one thread writes a struct, that of its actor; the registry has it as shared_ptr<const ...>.
// Limits: the values of metric_types.h: no lock and no allocation in any call.
// Why:    header only, so code that counts does not link the exporter. Names and help texts are in metric_families.cc.
#pragma once

#include <array>

#include "common/base/status.h"
#include "monitoring/metric_types.h"

namespace capstan::monitoring {

inline constexpr std::array kRequestSeconds = {50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3,
                                               50e-3, 0.1,    0.25,   0.5,    1.0,  2.5,    5.0,  10.0};
inline constexpr std::array kStepSeconds = {1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 0.1, 0.25,
                                            0.5,  1.0,    2.5,  5.0,   10.0,  30.0,  60.0};
inline constexpr std::array kStalenessSteps = {0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, 64.0};

// The kind of a peer's request.
enum class RequestOp { kJoin, kPush, kPull, kEndSlot, kHeartbeat, kOther };
// The kind of traffic: payloads of tensors (kData), or all other bytes and messages (kControl).
enum class Plane { kData, kControl };
// kRefused: a message that its sender may not send to this process.
enum class NetworkError { kDecode, kDisconnect, kRefused };
enum class MemberState { kAlive, kLost };
// A process that takes part in a job.
enum class Member { kWorker, kShard };
// The phases of a worker's step, whose times are measured. kEncode: what follows a finished gradient until its slot
// ends: sums, clipping, rounding to the job's encoding, hashes, and the hand-over of its pushes.
enum class WorkerPhase { kData, kForward, kBackward, kEncode, kWait };
// What a shard's thread spends its time with. kStage: a push that completed no block; kApply: messages that made it
// update blocks.
enum class ShardPhase { kStage, kApply, kCommit, kPull, kOther };
// The cause of a worker's wait: weights within a step, or the next step.
enum class WaitPhase { kWeights, kCommit };

template <class T>
using ByOp = Labelled<T, RequestOp, RequestOp::kOther>;
template <class T>
using ByCode = Labelled<T, Code, Code::kRefused>;
template <class T>
using ByPlane = Labelled<T, Plane, Plane::kControl>;
template <class T>
using ByNetworkError = Labelled<T, NetworkError, NetworkError::kRefused>;
template <class T>
using ByMemberState = Labelled<T, MemberState, MemberState::kLost>;
template <class T>
using ByMember = Labelled<T, Member, Member::kShard>;
template <class T>
using ByShardPhase = Labelled<T, ShardPhase, ShardPhase::kOther>;
template <class T>
using ByWorkerPhase = Labelled<T, WorkerPhase, WorkerPhase::kWait>;
template <class T>
using ByWaitPhase = Labelled<T, WaitPhase, WaitPhase::kCommit>;

struct alignas(64) ShardMetrics {
  ByOp<ByCode<Counter>> requests;  // finished requests, as requests[op][code]

  Counter pushes_staged, pushes_duplicate, pushes_stale, pushes_invalid, pushes_busy, pushes_corrupt;
  Counter unknown_sessions;  // messages of sessions that the coordinator has not named here
  Counter hash_mismatches;   // second pushes of a node that differ from the first
  Counter reports_dropped;   // reports of slots that are too many steps ahead of the slowest

  Counter steps_applied, steps_skipped, steps_redone;
  Counter updates_applied;  // blocks that got a new version
  Gauge version;            // newest published

  Histogram<kRequestSeconds> push_seconds;       // received to acknowledged
  Histogram<kRequestSeconds> pull_seconds;       // received to answered
  Histogram<kRequestSeconds> apply_seconds;      // reduction and optimizer of one block
  Histogram<kStepSeconds> pull_wait_seconds;     // of parked pulls: parked to answered
  Histogram<kStepSeconds> verdict_wait_seconds;  // prepared to committed
  Histogram<kStalenessSteps> staleness_steps;    // newest version minus the gradient's version
  ByShardPhase<SecondsCounter> phase_seconds;    // of the shard's thread

  Gauge parameter_bytes, optimizer_bytes;  // sizes in the published version
  Gauge staging_bytes;                     // received gradients that are not reduced yet
  Gauge pool_used_bytes, pool_free_bytes;
  Gauge queue_messages, queue_bytes;  // received messages that are not handled yet
  Gauge waiting_pulls;

  Counter log_records, log_bytes;                 // appended records that are durable
  Counter log_failures;                           // failed appends
  Counter log_replayed;                           // replayed records
  Histogram<kRequestSeconds> log_append_seconds;  // one group of records: handed over to durable

  Gauge generation, term, incarnation;
};

struct alignas(64) CoordinatorMetrics {
  ByOp<ByCode<Counter>> requests;

  Counter steps_applied, steps_skipped, steps_redone;
  Counter samples;
  Gauge step;                                 // newest committed
  Gauge steps_wanted;                         // the job's length
  Histogram<kStepSeconds> step_seconds;       // commit to commit
  Histogram<kStepSeconds> straggler_seconds;  // first shard prepared to last
  Gauge straggler_ratio;                      // slowest worker's time in its step, over the usual time of a step
  OptionalGauge slot_skew_steps;              // fastest slot minus slowest; only without global steps
  OptionalGauge staleness_limit_steps;        // only in mode bounded

  OptionalGauge loss, validation_loss, gradient_norm, learning_rate, loss_scale;

  Gauge state;  // the number of a CoordinatorState
  ByMember<Gauge> members_wanted;
  ByMember<Counter> restarts;  // processes that came again after an earlier one of their name
  ByMemberState<Gauge> workers, shards;
  Counter joins, joins_refused, leases_lost, slots_moved, slots_backed_up, recoveries;
  Gauge waiting_seconds;              // time since the newest step
  OptionalGauge stall_limit_seconds;  // waiting time after which the job fails
  Counter snapshots_taken, snapshots_failed, snapshots_passed_over, snapshots_bad;
  Histogram<kStepSeconds> snapshot_seconds;  // from its version to its manifest
  Gauge snapshot_version, snapshot_bytes;    // the newest snapshot
  OptionalGauge snapshot_time;               // unix time when it was taken, or when this coordinator began
  OptionalGauge snapshot_every_seconds, snapshot_every_steps;  // of the job file
  Gauge slots, slots_unassigned;
  Gauge generation, term;
};

struct alignas(64) WorkerMetrics {
  Counter steps, samples;
  Gauge step;   // the step that is being computed
  Gauge slots;  // how many slots the worker computes in this round
  Histogram<kStepSeconds> step_seconds;
  ByWorkerPhase<SecondsCounter> phase_seconds;
  ByWaitPhase<Histogram<kStepSeconds>> wait_seconds;

  Gauge unstaged_pushes;     // pushes that are not staged yet
  Gauge unsent_pushes;       // of those, pushes that wait for credit or for room on the line
  Counter slots_left_out;    // slots whose gradient was not finite, where each slot decides by itself
  OptionalGauge loss_scale;  // of the newest round
  Counter reduced_bytes, group_bytes_out, gloo_groups, nccl_groups, secure_groups;  // reductions with other workers
  OptionalGauge loss;
  Gauge generation;
};

// One per socket, written by the thread that owns the socket.
struct alignas(64) TransportMetrics {
  ByPlane<Counter> bytes_in, bytes_out, messages_in, messages_out;
  ByNetworkError<Counter> errors;
  Counter sends_blocked;    // messages refused because the queue was full
  Counter payloads_shared;  // sent messages whose payload the peer reads where it lies
  Counter connections_made, connections_lost;
  Gauge send_queue_messages;
  Gauge plaintext;  // 1 if other machines reach the socket, and nothing is encrypted or checked
};

}  // namespace capstan::monitoring
