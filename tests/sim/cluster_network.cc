// How messages travel in a simulated cluster: late, twice, not at all, in another order, and changed.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/fetch.h"
#include "common/wire/messages/hello.h"
#include "common/wire/messages/push.h"
#include "common/wire/messages/reset.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/snapshot_done.h"
#include "common/wire/messages/upload_block.h"
#include "common/wire/messages/weights.h"
#include "tests/sim/cluster_state.h"

namespace capstan::sim {

bool Cluster::Parted(std::uint64_t from, std::uint64_t to) const {
  return std::any_of(partitions_.begin(), partitions_.end(),
                     [&](const Partition& p) { return now_ < p.until && p.from.contains(from) && p.to.contains(to); });
}

const World& Cluster::Look() {
  world_.coordinator = coordinator_.core.get();
  world_.shards.resize(shards_.size());
  world_.incarnations.resize(shards_.size());
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    world_.shards[i] = shards_[i].core.get();
    world_.incarnations[i] = shards_[i].incarnation;
  }
  world_.now = now_;
  return world_;
}

void Cluster::Send(std::uint64_t from, Outbox* outbox, bool zombie) {
  for (const Notice& notice : outbox->notices) {
    if (notice.text.starts_with("acknowledged pushes after version")) checks_->SaidLost();
    if (notice.text.find("the job goes back to version") != notice.text.npos) ++troubles_;  // no worker has the version
    if (notice.severity != Severity::kInfo || options_.trace) Trace(std::to_string(from) + " says: " + notice.text);
  }
  for (Envelope& envelope : outbox->envelopes) {
    ++messages_;
    if (from == kCoordinator) markers_->SentByCoordinator(envelope, zombie);
    if (options_.durable && IsShardAddress(from)) {
      checks_->Acknowledged(from - kShards, shards_[from - kShards].core->timeline(), envelope.message.header);
    }
    if (!Travels(from, &envelope.message)) return outbox->Clear();
    NoteEvent(from, envelope);
    if (mutant_ != nullptr && mutant_->send && !MutateSend(from, zombie, &envelope)) continue;
    if (!HasRoom(from, envelope)) continue;
    if (!Calm() && (Chance(options_.loss) || Parted(from, envelope.to.value))) {
      Count("messages lost");
      Lost(envelope.message);
      continue;
    }
    if (!Calm() && options_.damaged_payloads > 0 && Chance(options_.damaged_payloads)) Damage(&envelope.message);
    Enqueue(from, envelope, zombie);
    if (!Calm() && Chance(options_.duplication)) {
      Count("messages doubled");
      Enqueue(from, envelope, zombie);
    }
    if (!Calm() && options_.repeated_late > 0 && Chance(options_.repeated_late)) {
      Count("message delivered again after seconds");
      queue_.push({now_ + Up_to(10000), ++order_, from, envelope.to.value, envelope.message, zombie, false});
    }
  }
  outbox->Clear();
}

bool Cluster::Travels(std::uint64_t from, Message* message) {
  const Status status = wire_.Transfer(message);
  if (!status.ok() && outcome_.violation.empty()) {
    outcome_.violation = "process " + std::to_string(from) + " cannot send \"" + Checks::Describe(message->header) +
                         "\": " + status.message();
  }
  return status.ok();
}

// A message for which the line has no room is dropped; a worker's session repeats it. Servers have a queue for as many
// messages again in front of each line.
bool Cluster::HasRoom(std::uint64_t from, const Envelope& envelope) {
  const bool queues = from < kWorkers && from != kReader;
  if (lines_.Full(from, envelope.to.value, queues ? 1 : 0)) {
    Count(queues ? "messages of servers dropped behind a full queue" : "messages refused by a full queue");
    return false;
  }
  const std::size_t bytes = envelope.message.payload.size;
  if (options_.payload_factor_max > 0 && bytes > 0) payload_.Sent(envelope.to.value, wire_.header_hash(), bytes);
  return true;
}

void Cluster::NoteEvent(std::uint64_t from, const Envelope& envelope) {
  events_.Add(static_cast<std::uint64_t>(now_.count()));
  events_.Add(from);
  events_.Add(envelope.to.value);
  events_.Add(wire_.header_hash());
  events_.Add(Hash64({envelope.message.payload.data, envelope.message.payload.size}));
}

void Cluster::Lost(const Message& message) { payload_.Lost(message.payload.size); }

void Cluster::Enqueue(std::uint64_t from, const Envelope& envelope, bool zombie) {
  const std::uint64_t to = envelope.to.value;
  Instant at = lines_.Send(from, to, wire_.header_bytes() + envelope.message.payload.size, now_) + Up_to(3);
  if (!Calm() && Chance(options_.late)) at += Up_to(3000);
  if (options_.in_order) at = lines_.Behind(from, to, at);
  Delivery delivery{at, ++order_, from, to, envelope.message, zombie, true};
  if (shared_) LeavePayload(&delivery);
  queue_.push(std::move(delivery));
}

bool Cluster::Lives(std::uint64_t node) const {
  if (node >= kWorkers) return workers_.contains(node);
  return IsShardAddress(node) && node - kShards < shards_.size() && shards_[node - kShards].core != nullptr;
}

void Cluster::LeavePayload(Delivery* delivery) {
  if (delivery->message.payload.empty() || !Lives(delivery->from) || !Lives(delivery->to)) return;
  if ((delivery->from >= kWorkers) == (delivery->to >= kWorkers)) return;
  delivery->reference = shared_->Refer(delivery->from, delivery->to, delivery->message.payload);
  if (!delivery->reference) return;
  Count("payloads left in their sender's memory");
  delivery->referred_hash = Hash64(delivery->message.payload.bytes());
  delivery->message.payload = {};
}

bool Cluster::FetchPayload(Delivery* delivery) {
  Result<Slice> copy = shared_->Copy(delivery->from, delivery->to, *delivery->reference);
  if (copy.status().code() == Code::kCorrupt) outcome_.violation = "a reference that its sender did not send";
  if (!copy.ok()) {
    Count("reference of a connection that is gone");
    return false;
  }
  delivery->message.payload = std::move(copy).value();
  if (Hash64(delivery->message.payload.bytes()) == delivery->referred_hash) return true;
  Count("memory used again after its connection was given up");
  if (!shared_->IsGivenUp(delivery->from, delivery->to)) {
    outcome_.violation = "a payload changed before its receiver had copied it";
  }
  return true;
}

Instant Cluster::PausedUntil(std::uint64_t node) const {
  if (node >= kWorkers) {
    const auto worker = workers_.find(node);
    return worker == workers_.end() ? Instant{} : worker->second->paused_until;
  }
  return Lives(node) ? shards_[node - kShards].paused_until : Instant{};
}

void Cluster::Replay(const Delivery& delivery) {
  const Header& header = delivery.message.header;
  const bool decides = header.Is<Reset>() || header.Is<Commit>() || header.Is<Redo>() || header.Is<Prepared>() ||
                       header.Is<Committed>() || header.Is<ResetDone>() || header.Is<SnapshotDone>() ||
                       header.Is<Hello>();
  std::deque<Delivery>& history = history_[decides ? 1 : 0];
  history.push_back(delivery);
  if (history.size() > 200) history.pop_front();
  if (!Chance(options_.replays)) return;
  const std::deque<Delivery>& choice = history_[Chance(0.5) && !history_[1].empty() ? 1 : 0];
  if (choice.empty()) return;
  Delivery again = choice[random_.Below(choice.size())];
  again.at = now_ + Up_to(3);
  again.order = ++order_;
  again.on_line = false;
  queue_.push(std::move(again));
  Count("older message delivered again");
}

// Flips a bit of the payload, and has the hash match it.
template <class Body>
void Cluster::Falsify(Message* message, Body* body) {
  Damage(message);
  if (!message->payload.empty()) body->payload_hash = Hash64(message->payload.bytes());
}

void Cluster::Damage(Message* message) {
  const bool of_blocks =
      message->header.Is<Push>() || message->header.Is<Weights>() || message->header.Is<UploadBlock>();
  if (of_blocks && FlipBit(message)) Count("payload damaged in flight");
}

bool Cluster::FlipBit(Message* message) {
  if (message->payload.empty() || message->payload.size > pool_->buffer_bytes()) return false;
  BufferRef copy = pool_->Take();
  std::memcpy(copy->data(), message->payload.data, message->payload.size);
  copy->data()[random_.Below(message->payload.size)] ^= std::byte{1};
  const std::byte* data = copy->data();
  message->payload = {std::move(copy), data, message->payload.size};
  return true;
}

Tampering Cluster::MakeTampering(std::uint64_t from, std::uint64_t to, const Message& message) {
  return {&Look(), from, to, nullptr, false, message, false, {}, {}, &mutant_seen_, &mutant_numbers_};
}

void Cluster::SendForged(const Tampering& tampering) {
  for (const Tampering::Forged& forged : tampering.also) {
    const Envelope envelope{PeerId{forged.to}, forged.message};
    if (HasRoom(forged.from, envelope)) Enqueue(forged.from, envelope, false);
  }
}

bool Cluster::MutateSend(std::uint64_t from, bool zombie, Envelope* envelope) {
  Tampering tampering = MakeTampering(from, envelope->to.value, envelope->message);
  tampering.from_zombie = zombie;
  mutant_->send(&tampering);
  envelope->message = tampering.message;
  SendForged(tampering);
  return !tampering.drop;
}

void Cluster::Arrive(const Delivery& delivery, const Coordinator* receiver,
                     const std::function<void(const Message&)>& handle) {
  if (mutant_ == nullptr || !mutant_->deliver) return handle(delivery.message);
  Tampering tampering = MakeTampering(delivery.from, delivery.to, delivery.message);
  tampering.receiver = receiver;
  tampering.from_zombie = delivery.zombie;
  mutant_->deliver(&tampering);
  SendForged(tampering);
  for (const Message& message : tampering.before) handle(message);
  if (!tampering.drop) handle(tampering.message);
}

bool Cluster::Postponed(const Delivery& delivery, Instant paused_until) {
  if (delivery.reference) paused_until = lines_.HeldUntil(delivery.from, delivery.to, paused_until);
  if (paused_until <= now_) return false;
  Delivery later = delivery;
  later.at = paused_until;
  if (!delivery.reference) later.order = ++order_;  // references stay in the order in which they were sent
  later.on_line = false;
  queue_.push(std::move(later));
  return true;
}

void Cluster::Deliver() {
  Delivery delivery = std::move(const_cast<Delivery&>(queue_.top()));  // its order does not change
  queue_.pop();
  now_ = std::max(now_, delivery.at);
  if (const auto lost = lost_through_.find(delivery.from);
      lost != lost_through_.end() && delivery.order <= lost->second) {
    Lost(delivery.message);
    return Count("messages lost with their sender");
  }
  if (delivery.on_line) lines_.Arrived(delivery.from, delivery.to);
  if (options_.trace) {
    Trace(std::to_string(delivery.from) + " -> " + std::to_string(delivery.to) + " " +
          checks_->Describe(delivery.message.header));
  }
  if (const auto clog = clogs_.find(delivery.to); clog != clogs_.end() && Postponed(delivery, clog->second)) return;
  if (delivery.reference) {
    if (Postponed(delivery, PausedUntil(delivery.to))) return;
    if (!Lives(delivery.to) || !FetchPayload(&delivery)) return Lost(delivery.message);
  }
  if (options_.replays > 0 && !Calm()) Replay(delivery);
  const PeerId from{delivery.from};
  if (delivery.to == kCoordinator) {
    if (zombie_.core) DeliverToCoordinator(&zombie_, delivery);
    if (coordinator_.core && !Postponed(delivery, coordinator_.paused_until)) {
      DeliverToCoordinator(&coordinator_, delivery);
    }
  } else if (delivery.to == kStranger) {
    checks_->ToStranger(delivery.message);
  } else if (delivery.to == kIntruder) {
    return;  // it may learn what a worker learns
  } else if (delivery.to == kReader) {
    Outbox out;
    follower_->Handle(from, delivery.message, now_, &out);
    Send(kReader, &out);
  } else if (delivery.to >= kWorkers) {
    const auto worker = workers_.find(delivery.to);
    if (worker == workers_.end()) return Lost(delivery.message);
    if (Postponed(delivery, worker->second->paused_until)) return;
    checks_->SeePassed(delivery.to, worker->second->work(), delivery.message.header);
    markers_->ToWorker(Look(), delivery.to, worker->second->generation(), delivery.message);
    Outbox out;
    if (delivery.reference) CopyInPlace(worker->second.get(), from, delivery.message);
    Arrive(delivery, nullptr, [&](const Message& message) {
      worker->second->Handle(from, message, now_ + worker->second->clock_offset, &out);
    });
    if (delivery.reference && !Calm()) RepeatChanged(worker->second.get(), from, delivery.message, &out);
    Send(delivery.to, &out);
  } else {
    const std::size_t index = delivery.to - kShards;
    if (index >= shards_.size() || !shards_[index].core) return Lost(delivery.message);
    if (Postponed(delivery, shards_[index].paused_until)) return;
    DeliverToShard(index, delivery);
  }
  See();
}

void Cluster::See() {
  checks_->See(coordinator_.core.get(), Look().shards, disks_);
  if (checks_->replicas() != nullptr) checks_->replicas()->See(world_.shards, board_);
  markers_->Stage(world_);
}

void Cluster::DeliverToCoordinator(SimCoordinator* coordinator, const Delivery& delivery) {
  markers_->ToCoordinator(Look(), *coordinator->core, delivery.message);
  Outbox out;
  Arrive(delivery, coordinator->core.get(), [&](const Message& message) {
    coordinator->core->Handle(PeerId{delivery.from}, Principal{}, message, now_ + coordinator->clock_offset, &out);
  });
  AfterCoordinator(coordinator, &out);
}

SessionId Cluster::ForgeSession(const Shard& shard, bool intrudes, const std::function<bool(const LiveSession&)>& may) {
  if (!intrudes) return SessionId{random_.Next64()};
  std::vector<SessionId> others;
  for (const LiveSession& live : shard.sessions().sessions()) {
    if (!may(live)) others.push_back(live.session);
  }
  return others.empty() ? SessionId{} : others[random_.Below(others.size())];
}

void Cluster::CopyInPlace(SimWorker* worker, PeerId from, const Message& message) {
  if (worker->CopyInPlace(from, message)) Count("weights copied in place");
}

void Cluster::RepeatChanged(SimWorker* worker, PeerId from, const Message& message, Outbox* out) {
  if (!message.header.Is<Weights>() || !Chance(1.0 / 16)) return;
  Message again = message;
  if (!FlipBit(&again)) return;
  CopyInPlace(worker, from, again);
  worker->Handle(from, again, now_ + worker->clock_offset, out);
  Count("weights that came again, changed");
}

std::uint64_t Cluster::ForgeContents(const Shard& shard, Message* message) {
  if (!shard.serving()) return 0;
  bool intrudes = Chance(0.3), forges = true;
  message->header.VisitAs<Push, EndSlot, CoverageQuery, UploadBlock, Fetch>([&](auto& body) {
    using Body = std::decay_t<decltype(body)>;
    if constexpr (std::is_same_v<Body, Fetch>) {
      intrudes = false;
      body.key = random_.Next64();
    } else if constexpr (std::is_same_v<Body, CoverageQuery>) {
      intrudes = false;
      body.session = SessionId{random_.Next64()};
    } else if constexpr (std::is_same_v<Body, UploadBlock>) {
      body.session = ForgeSession(shard, intrudes, [&](const LiveSession& live) {
        return WorkersUpdate(options_.mode) ? !live.slots.empty() : live.founder;
      });
      Falsify(message, &body);
    } else if constexpr (std::is_same_v<Body, EndSlot>) {
      const Node leaf{body.report.slot, body.report.slot + 1};
      body.session =
          ForgeSession(shard, intrudes, [&](const LiveSession& live) { return server::MayPush(live, leaf); });
      body.report.samples += 1;
    } else {
      body.session =
          ForgeSession(shard, intrudes, [&](const LiveSession& live) { return server::MayPush(live, body.node); });
      const std::vector<BlockIndex>& blocks = shard.store().blocks();
      forges = std::find(blocks.begin(), blocks.end(), body.block) != blocks.end();
      body.samples += 1;
      Falsify(message, &body);
    }
    if constexpr (requires { body.session; }) forges = forges && body.session.value != 0;
  });
  const Header& header = message->header;
  const bool is_one = header.Is<Push>() || header.Is<EndSlot>() || header.Is<CoverageQuery>() ||
                      header.Is<UploadBlock>() || header.Is<Fetch>();
  return is_one && forges ? (intrudes ? kIntruder : kStranger) : 0;
}

void Cluster::Forge(std::size_t index, const Message& seen) {
  SimShard& shard = shards_[index];
  Delivery forged{now_, 0, 0, kShards + index, seen, false, false};
  forged.from = ForgeContents(*shard.core, &forged.message);
  if (forged.from == 0) return;
  Count(forged.from == kStranger ? "message forged by a stranger" : "message forged by an intruder");
  if (options_.trace) Trace("forged: " + checks_->Describe(forged.message.header));
  const std::uint64_t counted = shard.metrics->pushes_staged.value();
  Outbox out;
  Arrive(forged, nullptr,
         [&](const Message& message) { Hand(&shard, forged.from, message, shared_ != nullptr, &out); });
  if (shard.metrics->pushes_staged.value() > counted) outcome_.violation = "I8: a forged push was counted";
  AfterShard(index, &out);
}

// Gives a shard a message. A payload that the shard takes lent lies in memory that is used again right after; some
// senders change it before that. `may_lend`: it has come in shared memory.
void Cluster::Hand(SimShard* shard, std::uint64_t from, const Message& message, bool may_lend, Outbox* out) {
  const auto handle = [&](const Message& taken) {
    shard->core->Handle(PeerId{from}, taken, now_ + shard->clock_offset, out);
  };
  if (!may_lend || message.payload.empty() || !TakesLent(*shard->core, message.header)) return handle(message);
  const std::size_t size = message.payload.size;
  std::vector<std::byte> memory(message.payload.data, message.payload.data + size);
  if (!Calm() && lent_random_.Below(16) == 0) {
    memory[lent_random_.Below(size)] ^= std::byte{1};
    Count("lent payloads that changed");
  }
  Count("payloads lent to a shard");
  Message lent{message.header, {{}, memory.data(), size}};
  if (flaw_ == Flaw::kLentNotChecked) lent.header.As<Push>()->payload_hash = Hash64(memory);
  handle(lent);
  std::fill(memory.begin(), memory.end(), std::byte{0xA5});
}

void Cluster::DeliverToShard(std::size_t index, const Delivery& delivery) {
  SimShard& shard = shards_[index];
  if (!Calm() && options_.strangers > 0 && Chance(options_.strangers)) Forge(index, delivery.message);
  markers_->ToShard(Look(), delivery.from, index, delivery.message, delivery.zombie);
  const Version before = shard.core->version();
  const std::uint64_t counted = shard.metrics->pushes_staged.value();
  const std::uint64_t repeated = shard.metrics->pushes_duplicate.value();
  const bool logged = markers_->IsBeingLogged(*shard.core, shard.incarnation, delivery.message);
  Outbox out;
  Arrive(delivery, nullptr,
         [&](const Message& message) { Hand(&shard, delivery.from, message, delivery.reference.has_value(), &out); });
  if (const auto* push = delivery.message.header.As<Push>()) {
    if (shard.metrics->pushes_staged.value() > counted) {
      markers_->Staged(delivery.from, index, *push);
      checks_->PushCounted(*shard.core, shard.incarnation, index, before, *push);
    }
    if (shard.metrics->pushes_duplicate.value() > repeated) markers_->Repeated(delivery.from, *push);
    if (logged) Count("push that is being logged came again");
  }
  const bool matters = shard.core->version() != before || delivery.message.header.Is<Redo>() ||
                       delivery.message.header.Is<Reset>() || delivery.message.header.Is<RetainedSnapshots>();
  if (Chance(0.7)) shard.core->Flush(now_ + shard.clock_offset, &out);  // so that batches differ
  AfterShard(index, &out);
  if (!matters) return;
  See();  // its last message may matter
  Aim(index);
}

void Cluster::AfterCoordinator(SimCoordinator* coordinator, Outbox* out) {
  checks_->Take(coordinator->core->TakeRecords());  // also from a replaced coordinator, which writes the same file
  Send(kCoordinator, out, coordinator == &zombie_);
}

void Cluster::AfterShard(std::size_t index, Outbox* out) {
  SimShard& shard = shards_[index];
  for (server::DiskWork& work : shard.core->TakeDiskWork()) {
    const Instant before = shard.disk_work.empty() ? now_ : std::max(now_, shard.disk_work.back().first);
    const bool slow = !Calm() && Chance(options_.slow_disk);
    shard.disk_work.emplace_back(before + Up_to(slow ? 2000 : 20), std::move(work));
  }
  for (server::LogWork& work : shard.core->TakeLogWork()) {
    const Instant before = shard.log_work.empty() ? now_ : std::max(now_, shard.log_work.back().first);
    const bool slow = !Calm() && Chance(options_.slow_log);
    shard.log_work.emplace_back(before + Up_to(slow ? 2000 : 20), std::move(work));
  }
  Send(kShards + index, out);
}

}  // namespace capstan::sim
