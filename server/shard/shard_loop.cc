#include "server/shard/shard_loop.h"

#include <pthread.h>

#include <nlohmann/json.hpp>

#include "common/base/float_control.h"
#include "common/base/process_address.h"
#include "common/base/shared_memory.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/limits.h"
#include "server/shard/admission.h"
#include "server/shard/shard.h"
#include "server/storage/memory_push_log.h"
#include "server/storage/memory_snapshot_store.h"

namespace capstan::server {
namespace {

constexpr Instant kAnswerEvery = std::chrono::milliseconds(5);  // while a peer has not taken what it was sent

Instant Now() { return std::chrono::steady_clock::now().time_since_epoch(); }

}  // namespace

Result<std::unique_ptr<ShardLoop>> ShardLoop::Start(ShardLoopOptions options, monitoring::Registry* registry) {
  std::unique_ptr<ShardLoop> loop(new ShardLoop(std::move(options)));
  CAPSTAN_RETURN_IF_ERROR(loop->Open(registry));
  loop->thread_ = std::thread([raw = loop.get()] { raw->Run(); });
  return loop;
}

ShardLoop::ShardLoop(ShardLoopOptions options)
    : options_(std::move(options)), flight_(options_.flight), notices_([this](const Notice& notice) {
        flight_.Log(notice, Now());
        if (options_.on_notice) options_.on_notice(notice);
      }) {
  if (!options_.store) options_.store = std::make_unique<MemorySnapshotStore>();
  const bool durable = options_.shard.job.acknowledge == Acknowledge::kDurable;
  if (durable && !options_.log) options_.log = std::make_unique<MemoryPushLog>();
}

Status ShardLoop::Open(monitoring::Registry* registry) {
  LoopSocket::Options socket{options_.transport, EndpointOf(options_.listen), "cluster.listen",
                             options_.advertise, options_.on_notice,          Receiver::kShard};
  socket.flight = options_.flight;
  socket.transport.listen_frame_bytes_max = kFrameToShardBytesMax;
  socket.transport.coalesces = true;
  if (options_.shared_memory && IsLocalAddress(socket.listen)) options_.shard.memory = std::make_shared<SharedMemory>();
  socket.transport.memory = options_.shard.memory;
  socket.transport.lend = [this](PeerId, const Principal&, const Header& header, std::size_t) {
    return TakesLent(*core_, header);
  };
  socket.transport.on_note = [this](const std::string& text) {
    if (options_.on_notice) options_.on_notice({Severity::kWarning, text});
  };
  CAPSTAN_ASSIGN_OR_RETURN(socket_, LoopSocket::Open(std::move(socket), registry));
  CAPSTAN_ASSIGN_OR_RETURN(coordinator_,
                           socket_->transport()->Connect(EndpointOf(options_.coordinator), Role::kCoordinator));
  neighbours_.emplace(socket_->transport());
  metrics_ = registry->Create<monitoring::ShardMetrics>();
  ShardOptions& shard = options_.shard;
  shard.endpoint = socket_->endpoint();
  shard.coordinator = coordinator_;
  CAPSTAN_ASSIGN_OR_RETURN(shard.identity, BeginIncarnation());
  shard.incarnation = shard.identity.incarnation;
  shard.parts = options_.store->List();
  shard.connect = [this](const std::string& endpoint) { return neighbours_->Connect(endpoint); };
  shard.room = [this](PeerId peer) { return socket_->RoomFor(peer); };
  shard.busy_us = [this] { return static_cast<std::uint64_t>(busy_ / std::chrono::microseconds(1)); };
  core_ = std::make_unique<Shard>(shard, metrics_);
  const auto lane = [trace = options_.trace, name = std::to_string(shard.shard)](const char* what) {
    return trace == nullptr ? nullptr : trace->AddLane(what + name);
  };
  threads_.emplace(ShardThreads::Options{shard.shard, options_.store.get(), options_.log.get(),
                                         [this] { socket_->Wake(); }, lane("disk-")});
  times_.emplace(metrics_.get(), lane("shard-"));
  return {};
}

// Begins a new incarnation, and stores it in the shard's directory before the shard sends anything.
Result<ShardIdentity> ShardLoop::BeginIncarnation() {
  ShardIdentity identity = options_.store->identity();
  identity.shard = options_.shard.shard;
  // The new incarnation is above those that this directory has stored. The option comes from the wall clock. So the
  // first incarnation of a new directory is above those of the shard's earlier directories, unless the clock went back.
  identity.incarnation = std::max(identity.incarnation.Next(), options_.shard.incarnation);
  CAPSTAN_RETURN_IF_ERROR(options_.store->PersistIdentity(identity));
  return identity;
}

ShardLoop::~ShardLoop() {
  if (!thread_.joinable()) return;
  RequestStop();
  thread_.join();
}

void ShardLoop::RequestStop() {
  stop_requested_.store(true);
  socket_->Wake();
}

std::string ShardLoop::StatusJson() const {
  const auto whole = [](double value) { return static_cast<std::uint64_t>(value); };
  const monitoring::ShardMetrics& m = *metrics_;
  const double bytes = m.parameter_bytes.value();
  const nlohmann::ordered_json json = {{"shard", options_.shard.shard},
                                       {"address", socket_->endpoint()},
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
  bool answers_wait = false;
  while (!Over()) {
    const Instant now = Now();
    if (now >= next_tick) {
      next_tick = now + tick_every;
      Tick(now);
    }
    const Instant wait = answers_wait ? std::min(next_tick - now, kAnswerEvery) : next_tick - now;
    const int delivered =
        socket_->Poll(wait, [&](PeerId from, const Principal&, const Message& message) { HandleOne(from, message); });
    TakeDiskResults(Now());
    const bool logged = TakeLogResults(Now());
    metrics_->queue_messages.Set(delivered);  // what this poll of the sockets found waiting
    metrics_->queue_bytes.Set(socket_->TakeBytesReceived());
    if (delivered == 0 && !logged && !answers_wait) continue;
    const Instant before = Now();
    answers_wait = core_->Flush(before, &out_);
    SendOut();
    const Instant after = Now();
    times_->Flushed(after);
    busy_ += after - before;
  }
  (void)socket_->Poll({}, [](PeerId, const Principal&, const Message&) {});  // sends what is held for peers
  notices_.Flush();
  socket_->transport()->Disconnect(coordinator_);  // the coordinator sees that this shard is gone
  socket_->PublishCounts();
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
  busy_ += after - before;
  times_->Handled(message, before, after);
  times_->SeePrepared(core_->engine().prepared(), after);
}

void ShardLoop::Tick(Instant now) {
  core_->Tick(now, &out_);
  SendOut();
  notices_.Look(now);
  if (!core_->loading()) neighbours_->DisconnectAll();
  const std::uint64_t weights = core_->serving() ? core_->store().parameter_bytes() : 0;
  socket_->LimitPayloads(weights + PayloadsInFlight::kSpareBytes);
  socket_->PublishCounts();
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
    if (!is_outcome) notices_.Take(notice, Now());
  }
  const char* const state = core_->loading() ? "loads" : core_->serving() ? "serves" : "has no version yet";
  flight_.State(state, Now(), core_->version().value, core_->generation());
  (void)socket_->Send(&out_.envelopes);
  out_.Clear();
  SubmitDiskWork();
  threads_->SubmitLogWork(core_->TakeLogWork());
}

void ShardLoop::SubmitDiskWork() {
  std::vector<DiskWork> work = core_->TakeDiskWork();
  for (const DiskWork& one : work) {
    const auto* snapshot = std::get_if<WriteSnapshot>(&one);
    if (snapshot != nullptr) flight_.SnapshotBegins(Now(), snapshot->image.header.id.version, core_->generation());
  }
  threads_->SubmitDiskWork(std::move(work));
}

bool ShardLoop::TakeLogResults(Instant now) {
  bool any = false;
  while (std::optional<LogResult> result = threads_->TakeLogResult()) {
    core_->Handle(std::move(*result), now, &out_);
    SendOut();
    any = true;
  }
  return any;
}

void ShardLoop::TakeDiskResults(Instant now) {
  while (std::optional<DiskResult> result = threads_->TakeDiskResult()) {
    const auto* remembered = std::get_if<IdentityPersisted>(&*result);
    const auto* written = std::get_if<SnapshotWritten>(&*result);
    if (written != nullptr) flight_.SnapshotEnds(Now(), written->id.version, core_->generation(), written->status);
    const Code code = remembered != nullptr ? remembered->status.code() : Code::kOk;
    // A shard that cannot store its identity must not go on. If its disk is full (kBusy), it tries again.
    if (code != Code::kOk && code != Code::kBusy && outcome_.ok()) outcome_ = remembered->status;
    core_->Handle(std::move(*result), now, &out_);
    SendOut();
  }
}

bool ShardLoop::Over() const { return stop_requested_.load() || core_->shut_down() || !outcome_.ok(); }

}  // namespace capstan::server
