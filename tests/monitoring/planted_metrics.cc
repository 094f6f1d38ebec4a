#include "tests/monitoring/planted_metrics.h"

namespace capstan::monitoring {

void PlantMetrics(Registry& registry) {
  registry.NameJob("planted");
  registry.NameFolder("/");
  const auto shard = registry.Create<ShardMetrics>();
  shard->requests[RequestOp::kPush][Code::kOk].Add(9);
  shard->requests[RequestOp::kPull][Code::kStale].Add(1);
  shard->pushes_staged.Add(7);
  shard->pushes_duplicate.Add(2);
  shard->steps_applied.Add(40);
  shard->version.Set(40);
  for (const double seconds : {0.0004, 0.002, 0.0025, 0.3}) shard->apply_seconds.Observe(seconds);
  for (const int staleness : {0, 5, 100}) shard->staleness_steps.Observe(staleness);
  shard->push_seconds.Observe(0.002);
  shard->pull_seconds.Observe(0.004);
  shard->pool_used_bytes.Set(4096);
  shard->log_records.Add(12);
  shard->log_bytes.Add(5000);
  shard->log_append_seconds.Observe(0.002);

  const auto coordinator = registry.Create<CoordinatorMetrics>();
  coordinator->steps_applied.Add(40);
  coordinator->steps_skipped.Add(1);
  coordinator->step_seconds.Observe(0.25);
  coordinator->loss.Set(3.25);
  coordinator->learning_rate.Set(1e-3);
  for (OptionalGauge* gauge :
       {&coordinator->validation_loss, &coordinator->gradient_norm, &coordinator->loss_scale,
        &coordinator->slot_skew_steps, &coordinator->staleness_limit_steps, &coordinator->stall_limit_seconds,
        &coordinator->snapshot_time, &coordinator->snapshot_every_seconds, &coordinator->snapshot_every_steps}) {
    gauge->Set(1);
  }
  coordinator->workers[MemberState::kAlive].Set(2);
  coordinator->shards[MemberState::kAlive].Set(1);
  coordinator->generation.Set(1);
  coordinator->snapshots_taken.Add(6);
  coordinator->snapshots_bad.Add(1);
  coordinator->snapshot_seconds.Observe(0.5);
  coordinator->snapshot_version.Set(38);
  coordinator->snapshot_bytes.Set(4000);

  const auto worker = registry.Create<WorkerMetrics>();
  worker->steps.Add(40);
  worker->samples.Add(1280);
  worker->phase_seconds[WorkerPhase::kBackward].Add(1.5);
  worker->wait_seconds[WaitPhase::kWeights].Observe(0.01);
  worker->loss.Set(3.5);
  worker->loss_scale.Set(1);

  const auto transport = registry.Create<TransportMetrics>();
  transport->bytes_in[Plane::kData].Add(1 << 20);
  transport->messages_in[Plane::kData].Add(1);
  transport->bytes_out[Plane::kControl].Add(512);
  transport->errors[NetworkError::kDecode].Add(5);
}

}  // namespace capstan::monitoring
