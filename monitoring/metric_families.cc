#include "monitoring/metric_families.h"

#include <array>

namespace capstan::monitoring {
namespace {

constexpr std::array kOpValues = {"join", "push", "pull", "end_slot", "heartbeat", "other"};
constexpr std::array kCodeValues = {"ok",          "invalid", "busy",        "stale",  "timeout",
                                    "unreachable", "corrupt", "unsupported", "refused"};
constexpr std::array kPlaneValues = {"data", "control"};
constexpr std::array kNetworkErrorValues = {"decode", "disconnect", "refused"};
constexpr std::array kMemberStateValues = {"alive", "lost"};
constexpr std::array kMemberValues = {"worker", "shard"};
constexpr std::array kWorkerPhaseValues = {"data", "forward", "backward", "encode", "wait"};
constexpr std::array kShardPhaseValues = {"stage", "apply", "commit", "pull", "other"};
constexpr std::array kJobStateValues = {"gathering", "starting", "running", "finished", "stopped", "failed"};
constexpr std::array kWaitPhaseValues = {"weights", "commit"};

constexpr LabelValues kOp{"op", kOpValues};
constexpr LabelValues kCode{"code", kCodeValues};
constexpr LabelValues kPlane{"plane", kPlaneValues};
constexpr LabelValues kErrorKind{"kind", kNetworkErrorValues};
constexpr LabelValues kState{"state", kMemberStateValues};
constexpr LabelValues kMember{"member", kMemberValues};
constexpr LabelValues kWorkerPhase{"phase", kWorkerPhaseValues};
constexpr LabelValues kShardPhase{"phase", kShardPhaseValues};
constexpr LabelValues kWaitPhase{"phase", kWaitPhaseValues};

void DescribeGeneration(const Gauge& generation, FamilyTable& table) {
  table.Gauges("capstan_cluster_generation", "History between recoveries; grows at every rollback.", Merge::kMax)
      .Add(generation);
}

void DescribeTerm(const Gauge& term, FamilyTable& table) {
  table.Gauges("capstan_cluster_term", "Start of the coordinator that is obeyed.", Merge::kMax).Add(term);
}

void DescribePushes(const ShardMetrics& m, FamilyTable& table) {
  table.Counters("capstan_server_pushes_total", "Pushed nodes, by what became of them.")
      .Add(m.pushes_staged, {{"outcome", "staged"}})
      .Add(m.pushes_duplicate, {{"outcome", "duplicate"}})
      .Add(m.pushes_stale, {{"outcome", "stale"}})
      .Add(m.pushes_invalid, {{"outcome", "invalid"}})
      .Add(m.pushes_busy, {{"outcome", "busy"}})
      .Add(m.pushes_corrupt, {{"outcome", "corrupt"}});
  table
      .Counters("capstan_server_unknown_sessions_total",
                "Messages that were refused, because the coordinator has not named their session to the shard.")
      .Add(m.unknown_sessions);
}

void DescribeSteps(const ShardMetrics& m, FamilyTable& table) {
  table.Counters("capstan_server_steps_total", "Steps published, by verdict, summed over the shards of the process.")
      .Add(m.steps_applied, {{"action", "apply"}})
      .Add(m.steps_skipped, {{"action", "skip"}});
  table.Counters("capstan_server_steps_redone_total", "Times a step was prepared again with other coefficients.")
      .Add(m.steps_redone);
  table.Counters("capstan_server_updates_applied_total", "New versions of blocks built by the optimizer.")
      .Add(m.updates_applied);
  table.Gauges("capstan_server_step", "Newest version of the weights published here.", Merge::kMax).Add(m.version);
  table.Histograms("capstan_server_apply_duration_seconds", "Time to reduce and update one block.")
      .Add(m.apply_seconds);
  table.Histograms("capstan_server_verdict_wait_seconds", "Time from a prepared step to its verdict.")
      .Add(m.verdict_wait_seconds);
  table
      .Histograms("capstan_server_update_staleness_steps",
                  "Newest version minus the version that a pushed gradient was computed with.")
      .Add(m.staleness_steps);
}

void DescribePhases(const ShardMetrics& m, FamilyTable& table) {
  table.Gauges("capstan_server_shards", "Shards of this process.", Merge::kSum).Add(1);
  table
      .Counters("capstan_server_phase_seconds_total",
                "What the threads of the shards spent their time with, but for waits for messages.")
      .AddEach(kShardPhase, m.phase_seconds);
}

void DescribeLog(const ShardMetrics& m, FamilyTable& table) {
  table.Counters("capstan_server_log_records_total", "Pushes and ends of slots that are durable in the log.")
      .Add(m.log_records);
  table.Counters("capstan_server_log_bytes_total", "Bytes of the records that are durable in the log.")
      .Add(m.log_bytes);
  table.Counters("capstan_server_log_failures_total", "Appends to the log that failed.").Add(m.log_failures);
  table.Counters("capstan_server_log_replayed_total", "Records of the log that were applied again after a loss.")
      .Add(m.log_replayed);
  table.Histograms("capstan_server_log_append_duration_seconds", "Time until a group of records is durable.")
      .Add(m.log_append_seconds);
}

void DescribeMemory(const ShardMetrics& m, FamilyTable& table) {
  table.Gauges("capstan_server_dense_bytes", "Bytes of the published version, by kind.", Merge::kSum)
      .Add(m.parameter_bytes, {{"kind", "param"}})
      .Add(m.optimizer_bytes, {{"kind", "state"}});
  table.Gauges("capstan_server_staging_bytes", "Gradient bytes received and not yet reduced.", Merge::kSum)
      .Add(m.staging_bytes);
  table.Gauges("capstan_server_pool_bytes", "Bytes of the block pool, by state.", Merge::kSum)
      .Add(m.pool_used_bytes, {{"state", "used"}})
      .Add(m.pool_free_bytes, {{"state", "free"}});
  table.Gauges("capstan_server_queue_depth", "Messages received and not yet handled.", Merge::kSum)
      .Add(m.queue_messages);
  table.Gauges("capstan_server_queue_bytes", "Bytes received and not yet handled.", Merge::kSum).Add(m.queue_bytes);
  table.Gauges("capstan_server_waiting_pulls", "Pulls parked until their version is published.", Merge::kSum)
      .Add(m.waiting_pulls);
}

void DescribeCommits(const CoordinatorMetrics& m, FamilyTable& table) {
  table.Counters("capstan_job_steps_total", "Steps committed, by verdict; replayed ones count again.")
      .Add(m.steps_applied, {{"action", "apply"}})
      .Add(m.steps_skipped, {{"action", "skip"}});
  table.Counters("capstan_job_steps_redone_total", "Verdicts that asked to prepare a step again.").Add(m.steps_redone);
  table.Counters("capstan_job_samples_total", "Samples in committed steps.").Add(m.samples);
  table.Gauges("capstan_job_step", "Newest step committed.", Merge::kMax).Add(m.step);
  table.Gauges("capstan_job_steps_wanted", "Steps that the job file asks for.", Merge::kMax).Add(m.steps_wanted);
  table.Histograms("capstan_job_step_duration_seconds", "Time from one commit to the next.").Add(m.step_seconds);
}

void DescribeTraining(const CoordinatorMetrics& m, FamilyTable& table) {
  table.Gauges("capstan_job_loss", "Training loss of the newest step.", Merge::kMean).Add(m.loss);
  table.Gauges("capstan_job_validation_loss", "Newest validation loss.", Merge::kMean).Add(m.validation_loss);
  table.Gauges("capstan_job_gradient_norm", "Global gradient norm before clipping.", Merge::kMean).Add(m.gradient_norm);
  table.Gauges("capstan_job_learning_rate", "Learning rate of the newest step.", Merge::kMean).Add(m.learning_rate);
  table
      .Gauges("capstan_job_loss_scale", "Loss scale of the newest step; 1 unless the job computes in fp16.",
              Merge::kMean)
      .Add(m.loss_scale);
}

void DescribeWaits(const CoordinatorMetrics& m, FamilyTable& table) {
  auto states = table.Gauges("capstan_job_state", "1 for the state that the job is in.", Merge::kMax);
  for (std::size_t i = 0; i < kJobStateValues.size(); ++i) {
    states.Add(m.state.value() == static_cast<double>(i) ? 1 : 0, {{"state", kJobStateValues[i]}});
  }
  table.Gauges("capstan_job_waiting_seconds", "Time since the newest step; the log says for whom.", Merge::kMax)
      .Add(m.waiting_seconds);
  table.Gauges("capstan_job_stall_limit_seconds", "Time without a step after which the job fails.", Merge::kMax)
      .Add(m.stall_limit_seconds);
  table.Histograms("capstan_job_straggler_seconds", "Time from the first shard prepared to the last.")
      .Add(m.straggler_seconds);
  table
      .Gauges(
          "capstan_job_straggler_ratio",
          "How many usual steps the slowest worker has computed its present one; a usual step counts as 1 s at least.",
          Merge::kMax)
      .Add(m.straggler_ratio);
  table
      .Gauges("capstan_job_slot_skew_steps", "Steps from the slowest slot to the fastest; in async and bounded.",
              Merge::kMax)
      .Add(m.slot_skew_steps);
  table.Gauges("capstan_job_staleness_limit_steps", "The bound of mode bounded, job.staleness.", Merge::kMax)
      .Add(m.staleness_limit_steps);
}

void DescribeMembers(const CoordinatorMetrics& m, FamilyTable& table) {
  table.Gauges("capstan_cluster_members", "Members of the job, by kind and state.", Merge::kSum)
      .Add(m.workers[MemberState::kAlive], {{"member", "worker"}, {"state", "alive"}})
      .AddEach(kState, m.shards, {{"member", "shard"}});
  table.Gauges("capstan_cluster_members_wanted", "Members that the job file asks for, by kind.", Merge::kSum)
      .AddEach(kMember, m.members_wanted);
  table.Counters("capstan_cluster_restarts_total", "Processes that came in place of an earlier one, by kind.")
      .AddEach(kMember, m.restarts);
  table.Counters("capstan_cluster_joins_total", "Workers that asked to join, by answer.")
      .Add(m.joins, {{"result", "accepted"}})
      .Add(m.joins_refused, {{"result", "refused"}});
  table.Counters("capstan_cluster_leases_lost_total", "Workers that were given up as lost.").Add(m.leases_lost);
  table.Counters("capstan_cluster_slots_moved_total", "Slots given to another worker.").Add(m.slots_moved);
  table.Counters("capstan_cluster_slots_backed_up_total", "Slots of slow workers given to a second one as well.")
      .Add(m.slots_backed_up);
  table.Gauges("capstan_cluster_slots", "Slots of the job, by state.", Merge::kSum)
      .Add(m.slots.value() - m.slots_unassigned.value(), {{"state", "assigned"}})
      .Add(m.slots_unassigned, {{"state", "unassigned"}});
  table.Counters("capstan_cluster_recoveries_total", "Returns of all shards to a snapshot.").Add(m.recoveries);
}

void DescribeSnapshots(const CoordinatorMetrics& m, FamilyTable& table) {
  table.Counters("capstan_snapshots_total", "Snapshots asked for, by what became of them; bad: found unusable later.")
      .Add(m.snapshots_taken, {{"result", "taken"}})
      .Add(m.snapshots_failed, {{"result", "failed"}})
      .Add(m.snapshots_passed_over, {{"result", "passed_over"}})
      .Add(m.snapshots_bad, {{"result", "bad"}});
  table.Histograms("capstan_snapshot_duration_seconds", "Time from a version to the manifest of its snapshot.")
      .Add(m.snapshot_seconds);
  table.Gauges("capstan_snapshot_step", "Version of the newest snapshot.", Merge::kMax).Add(m.snapshot_version);
  table.Gauges("capstan_snapshot_bytes", "Size of the newest snapshot, all shards.", Merge::kMax).Add(m.snapshot_bytes);
  table
      .Gauges("capstan_snapshot_last_success_timestamp_seconds",
              "Unix time of the newest snapshot, or of the coordinator's start while it has taken none.", Merge::kMax)
      .Add(m.snapshot_time);
  table.Gauges("capstan_snapshot_interval_seconds", "Time between snapshots that the job file asks for.", Merge::kMax)
      .Add(m.snapshot_every_seconds);
  table.Gauges("capstan_snapshot_interval_steps", "Steps between snapshots that the job file asks for.", Merge::kMax)
      .Add(m.snapshot_every_steps);
}

}  // namespace

void Describe(const BuildInfo& build, FamilyTable& table) {
  table.Gauges("capstan_build_info", "Always 1; what is running is in the labels.", Merge::kMax)
      .Add(1, {{"version", build.version}, {"commit", build.commit}});
}

void Describe(const ProcessReading& process, FamilyTable& table) {
  table.Counters("process_cpu_seconds_total", "Processor time of this process, user and system.")
      .Add(process.cpu_seconds);
  table.Gauges("process_resident_memory_bytes", "Resident memory of this process.", Merge::kMax)
      .Add(process.resident_bytes);
  table.Gauges("process_virtual_memory_bytes", "Virtual memory of this process.", Merge::kMax)
      .Add(process.virtual_bytes);
  table.Gauges("process_start_time_seconds", "Start of this process, unix time.", Merge::kMax)
      .Add(process.start_time_seconds);
  table
      .Gauges("capstan_process_memory_left_bytes",
              "Memory that this process may still take, by the machine, its control group and its address space.",
              Merge::kMax)
      .Add(process.memory_left_bytes);
  table.Gauges("process_threads", "Threads of this process.", Merge::kMax).Add(process.threads);
  table.Gauges("process_open_fds", "Open file descriptors.", Merge::kMax).Add(process.open_fds);
  table.Gauges("process_max_fds", "Limit of open file descriptors.", Merge::kMax).Add(process.max_fds);
}

void Describe(const DiskReading& disk, FamilyTable& table) {
  table.Gauges("capstan_disk_free_bytes", "Free bytes for this user on the disk of the run directory.", Merge::kMax)
      .Add(disk.free_bytes);
  table.Gauges("capstan_disk_size_bytes", "Size of the disk of the run directory.", Merge::kMax).Add(disk.size_bytes);
}

void Describe(const ShardMetrics& m, FamilyTable& table) {
  table.Counters("capstan_server_requests_total", "Finished requests, by operation and result.")
      .AddEach(kOp, kCode, m.requests);
  table.Histograms("capstan_server_request_duration_seconds", "Time from a request's arrival to its answer.")
      .Add(m.push_seconds, {{"op", "push"}})
      .Add(m.pull_seconds, {{"op", "pull"}});
  table.Histograms("capstan_server_pull_wait_seconds", "Time a pull was parked until its version was published.")
      .Add(m.pull_wait_seconds);
  DescribePushes(m, table);
  table.Counters("capstan_server_payload_hash_mismatches_total", "Equal nodes of two workers with different payload.")
      .Add(m.hash_mismatches);
  table
      .Counters("capstan_server_slot_reports_dropped_total",
                "Losses and metrics of slots that were too many steps ahead to wait for: their steps lack them.")
      .Add(m.reports_dropped);
  DescribeSteps(m, table);
  DescribePhases(m, table);
  DescribeLog(m, table);
  DescribeMemory(m, table);
  table.Gauges("capstan_server_incarnation", "Start of the shard, the newest in this process.", Merge::kMax)
      .Add(m.incarnation);
  DescribeGeneration(m.generation, table);
  DescribeTerm(m.term, table);
}

void Describe(const CoordinatorMetrics& m, FamilyTable& table) {
  table.Counters("capstan_coordinator_requests_total", "Finished requests, by operation and result.")
      .AddEach(kOp, kCode, m.requests);
  DescribeCommits(m, table);
  DescribeTraining(m, table);
  DescribeWaits(m, table);
  DescribeMembers(m, table);
  DescribeSnapshots(m, table);
  DescribeGeneration(m.generation, table);
  DescribeTerm(m.term, table);
}

void Describe(const WorkerMetrics& m, FamilyTable& table) {
  table.Counters("capstan_worker_steps_total", "Steps finished by this worker.").Add(m.steps);
  table.Counters("capstan_worker_samples_total", "Samples computed by this worker.").Add(m.samples);
  table.Gauges("capstan_worker_step", "Step being computed.", Merge::kMax).Add(m.step);
  table.Gauges("capstan_worker_slots", "Slots of the round being computed.", Merge::kSum).Add(m.slots);
  table.Histograms("capstan_worker_step_duration_seconds", "Time of one step.").Add(m.step_seconds);
  table.Counters("capstan_worker_phase_seconds_total", "Where the time of the steps went.")
      .AddEach(kWorkerPhase, m.phase_seconds);
  table.Histograms("capstan_worker_wait_seconds", "Waits, by what was waited for.").AddEach(kWaitPhase, m.wait_seconds);
  table.Gauges("capstan_worker_unstaged_pushes", "Pushed nodes kept until their shard has staged them.", Merge::kSum)
      .Add(m.unstaged_pushes);
  table
      .Gauges("capstan_worker_unsent_pushes", "Pushed nodes that wait for credit of the shard or for room on the line.",
              Merge::kSum)
      .Add(m.unsent_pushes);
  table
      .Counters("capstan_worker_slots_left_out_total",
                "Slots whose gradient was not finite, so that their push changed no weight; in async and bounded.")
      .Add(m.slots_left_out);
  table
      .Gauges("capstan_worker_loss_scale", "Loss scale of the newest round; 1 unless the job computes in fp16.",
              Merge::kMean)
      .Add(m.loss_scale);
  table.Counters("capstan_worker_reduced_bytes_total", "Gradients added up with other workers.").Add(m.reduced_bytes);
  table.Counters("capstan_worker_group_transmit_bytes_total", "Payload that hosts sent to other workers.")
      .Add(m.group_bytes_out);
  table.Counters("capstan_worker_groups_total", "Groups of workers joined, by what adds up their gradients.")
      .Add(m.gloo_groups, {{"kind", "gloo"}})
      .Add(m.nccl_groups, {{"kind", "nccl"}})
      .Add(m.secure_groups, {{"kind", "secure"}});
  table.Gauges("capstan_worker_loss", "Loss of the newest slot of this worker.", Merge::kMean).Add(m.loss);
  DescribeGeneration(m.generation, table);
}

void Describe(const TransportMetrics& m, FamilyTable& table) {
  table.Counters("capstan_network_receive_bytes_total", "Bytes received, or read in shared memory.")
      .AddEach(kPlane, m.bytes_in);
  table.Counters("capstan_network_transmit_bytes_total", "Bytes sent, or read by the receiver in shared memory.")
      .AddEach(kPlane, m.bytes_out);
  table.Counters("capstan_network_receive_messages_total", "Messages received.").AddEach(kPlane, m.messages_in);
  table.Counters("capstan_network_transmit_messages_total", "Messages sent.").AddEach(kPlane, m.messages_out);
  table.Counters("capstan_network_errors_total", "Messages and connections given up, by kind.")
      .AddEach(kErrorKind, m.errors);
  table.Counters("capstan_network_sends_blocked_total", "Messages put back because a pipe was full.")
      .Add(m.sends_blocked);
  table
      .Counters("capstan_network_shared_payloads_total",
                "Messages sent whose payload the receiver reads in shared memory.")
      .Add(m.payloads_shared);
  table.Counters("capstan_network_connections_made_total", "Connections whose handshake succeeded.")
      .Add(m.connections_made);
  table.Counters("capstan_network_connections_lost_total", "Connections that ended, also before or in their handshake.")
      .Add(m.connections_lost);
  table.Gauges("capstan_network_send_queue_depth", "Messages waiting to be sent.", Merge::kSum)
      .Add(m.send_queue_messages);
  table.Gauges("capstan_network_plaintext", "Sockets that other machines reach without keys.", Merge::kSum)
      .Add(m.plaintext);
}

}  // namespace capstan::monitoring
