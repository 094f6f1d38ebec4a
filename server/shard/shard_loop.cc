#include "server/shard/shard_loop.h"

#include <pthread.h>

#include <nlohmann/json.hpp>

#include "common/base/float_control.h"
#include "common/wire/messages/error.h"
#include "monitoring/mirror_transport.h"
#include "server/net/advertised_endpoint.h"
#include "server/shard/admission.h"
#include "server/shard/shard.h"
#include "server/storage/memory_push_log.h"
#include "server/storage/memory_snapshot_store.h"

namespace capstan::server {
namespace {

constexpr Instant kRetryEvery = std::chrono::milliseconds(1);

Instant Now() { return std::chrono::steady_clock::now().time_since_epoch(); }

}  // namespace

Result<std::unique_ptr<ShardLoop>> ShardLoop::Start(ShardLoopOptions options, monitoring::Registry* registry) {
  std::unique_ptr<ShardLoop> loop(new ShardLoop);
  loop->transport_ = CreateZmqTransport(options.transport, &loop->counters_);
  CAPSTAN_ASSIGN_OR_RETURN(const std::string bound, loop->transport_->Bind(EndpointOf(options.listen)));
  CAPSTAN_ASSIGN_OR_RETURN(loop->endpoint_, AdvertisedEndpoint(bound, options.advertise, "cluster.listen"));
  CAPSTAN_ASSIGN_OR_RETURN(loop->coordinator_, loop->transport_->Connect("tcp://" + options.coordinator));
  options.shard.endpoint = loop->endpoint_;
  options.shard.coordinator = loop->coordinator_;
  loop->transport_metrics_ = registry->Create<monitoring::TransportMetrics>();
  loop->metrics_ = registry->Create<monitoring::ShardMetrics>();
  if (!options.store) options.store = std::make_unique<MemorySnapshotStore>();
  const bool durable = options.shard.acknowledge == Acknowledge::kDurable;
  if (durable && !options.log) options.log = std::make_unique<MemoryPushLog>();
  loop->options_ = std::move(options);
  CAPSTAN_ASSIGN_OR_RETURN(loop->options_.shard.identity, loop->BeginIncarnation());
  loop->options_.shard.incarnation = loop->options_.shard.identity.incarnation;
  loop->options_.shard.parts = loop->options_.store->List();
  loop->options_.shard.connect = [raw = loop.get()](const std::string& endpoint) { return raw->ConnectTo(endpoint); };
  loop->core_ = std::make_unique<Shard>(loop->options_.shard, loop->metrics_);
  const auto lane = [trace = loop->options_.trace, shard = std::to_string(loop->options_.shard.shard)](
                        const char* what) { return trace == nullptr ? nullptr : trace->AddLane(what + shard); };
  loop->disk_ = std::make_unique<ShardDiskThread>(
      loop->options_.shard.shard, loop->options_.store.get(), [raw = loop.get()] { raw->transport_->Wake(); },
      lane("disk-"));
  if (loop->options_.log) {
    loop->log_ = std::make_unique<PushLogThread>(loop->options_.shard.shard, loop->options_.log.get(),
                                                 [raw = loop.get()] { raw->transport_->Wake(); });
  }
  loop->outgoing_ =
      std::make_unique<Outgoing>(loop->transport_.get(), loop->transport_metrics_.get(), loop->options_.on_notice);
  loop->times_ = std::make_unique<ShardTimes>(loop->metrics_.get(), lane("shard-"));
  loop->thread_ = std::thread([raw = loop.get()] { raw->Run(); });
  return loop;
}

// Begins a new incarnation, and writes it to disk before the shard sends anything.
Result<ShardIdentity> ShardLoop::BeginIncarnation() {
  ShardIdentity identity = options_.store->identity();
  identity.shard = options_.shard.shard;
  // The new incarnation is above every one that this directory remembers. A new directory remembers none; its first
  // one, from the wall clock, is above those of other directories.
  identity.incarnation = std::max(identity.incarnation.Next(), options_.shard.incarnation);
  CAPSTAN_RETURN_IF_ERROR(options_.store->PersistIdentity(identity));
  return identity;
}

ShardLoop::~ShardLoop() {
  RequestStop();
  if (thread_.joinable()) thread_.join();
}

void ShardLoop::RequestStop() {
  stop_requested_.store(true);
  transport_->Wake();
}

std::string ShardLoop::StatusJson() const {
  const auto whole = [](double value) { return static_cast<std::uint64_t>(value); };
  const monitoring::ShardMetrics& m = *metrics_;
  const double bytes = m.parameter_bytes.value();
  const nlohmann::ordered_json json = {{"shard", options_.shard.shard},
                                       {"address", endpoint_},
                                       {"parameters", whole(bytes / sizeof(float))},
                                       {"weights_mib", whole(bytes / (1 << 20))},
                                       {"optimizer_mib", whole(m.optimizer_bytes.value() / (1 << 20))},
                                       {"version", whole(m.version.value())}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void ShardLoop::Run() {
  const FloatControl float_control;
  pthread_setname_np(pthread_self(), ("shard-" + std::to_string(options_.shard.shard)).c_str());
  const Instant tick_every = core_->engine().tick_every();
  Instant next_tick = Now();
  CoordinatorWatch::Options watch;
  watch.address = options_.coordinator;
  watch.join_seconds = options_.join_seconds;
  watch.stall_seconds = options_.stall_seconds;
  watch.report_seconds = options_.report_seconds;
  watch_.emplace(std::move(watch), next_tick);
  while (!Over()) {
    const Instant now = Now();
    if (now >= next_tick) {
      next_tick = now + tick_every;
      Tick(now);
    }
    const Instant wait = outgoing_->waiting() ? kRetryEvery : next_tick - now;
    const int delivered =
        transport_->Poll(wait, [&](PeerId from, const Message& message) { HandleOne(from, message); });
    if (outgoing_->waiting()) outgoing_->Retry();
    TakeDiskResults(Now());
    const bool logged = TakeLogResults(Now());
    CountBatch(delivered);
    if (delivered == 0 && !logged) continue;
    core_->Flush(Now(), &out_);
    SendOut();
    times_->Flushed(Now());
  }
  transport_->Disconnect(coordinator_);  // the coordinator sees that this shard is gone
  monitoring::MirrorTransport(counters_, transport_metrics_.get());
  ended_.store(true, std::memory_order_release);
  if (options_.on_end) options_.on_end();
}

void ShardLoop::HandleOne(PeerId from, const Message& message) {
  const Instant before = Now();
  if (from == coordinator_) watch_->NoteMessage(before);
  core_->Handle(from, message, before, &out_);
  if (outcome_.ok()) outcome_ = core_->refusal();
  if (from != coordinator_) CountRequest(message, out_, &metrics_->requests);
  SendOut();
  const Instant after = Now();
  times_->Handled(message, before, after);
  times_->SeePrepared(core_->engine().prepared(), after);
}

// Counts the messages and bytes that one poll of the sockets found waiting.
void ShardLoop::CountBatch(int messages) {
  const std::uint64_t bytes = counters_.header_bytes_in + counters_.payload_bytes_in;
  metrics_->queue_messages.Set(messages);
  metrics_->queue_bytes.Set(bytes - bytes_seen_);
  bytes_seen_ = bytes;
}

void ShardLoop::Tick(Instant now) {
  core_->Tick(now, &out_);
  SendOut();
  if (!core_->loading()) LeaveNeighbours();
  monitoring::MirrorTransport(counters_, transport_metrics_.get());
  const Result<std::string> waiting = watch_->Look(now);
  if (!waiting.ok()) {
    outcome_ = Timeout("shard " + std::to_string(options_.shard.shard) + ": " + waiting.status().message());
  } else if (!waiting->empty() && options_.on_waiting) {
    options_.on_waiting(*waiting);
  }
}

void ShardLoop::SendOut() {
  for (const Notice& notice : out_.notices) {
    const bool is_outcome = !outcome_.ok() && notice.text == outcome_.message();
    if (options_.on_notice && !is_outcome) options_.on_notice(notice);
  }
  (void)outgoing_->Send(&out_.envelopes);
  out_.Clear();
  SubmitWork();
}

void ShardLoop::SubmitWork() {
  for (DiskWork& work : core_->TakeDiskWork()) disk_work_.push_back(std::move(work));
  while (!disk_work_.empty() && disk_->Submit(std::move(disk_work_.front())).ok()) disk_work_.pop_front();
  for (LogWork& work : core_->TakeLogWork()) log_work_.push_back(std::move(work));
  while (!log_work_.empty() && log_->Submit(std::move(log_work_.front())).ok()) log_work_.pop_front();
}

bool ShardLoop::TakeLogResults(Instant now) {
  bool any = false;
  while (std::optional<LogResult> result = log_ ? log_->TakeResult() : std::nullopt) {
    core_->Handle(std::move(*result), now, &out_);
    SendOut();
    any = true;
  }
  return any;
}

void ShardLoop::TakeDiskResults(Instant now) {
  while (std::optional<DiskResult> result = disk_->TakeResult()) {
    const auto* remembered = std::get_if<IdentityPersisted>(&*result);
    const Code code = remembered != nullptr ? remembered->status.code() : Code::kOk;
    // A shard that cannot store its identity must not go on. If its disk is full, it tries again.
    if (code != Code::kOk && code != Code::kBusy && outcome_.ok()) outcome_ = remembered->status;
    core_->Handle(std::move(*result), now, &out_);
    SendOut();
  }
}

PeerId ShardLoop::ConnectTo(const std::string& endpoint) {
  const auto known = neighbours_.find(endpoint);
  if (known != neighbours_.end()) return known->second;
  const Result<PeerId> peer = transport_->Connect(endpoint);
  if (!peer.ok()) return {};
  neighbours_[endpoint] = *peer;
  return *peer;
}

// Closes the connections to other shards: an open one costs sockets, even if its process is gone.
void ShardLoop::LeaveNeighbours() {
  for (const auto& [endpoint, peer] : neighbours_) transport_->Disconnect(peer);
  neighbours_.clear();
}

bool ShardLoop::Over() const { return stop_requested_.load() || core_->shut_down() || !outcome_.ok(); }

}  // namespace capstan::server
