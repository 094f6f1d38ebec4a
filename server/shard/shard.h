// Shard: applies pushes to its blocks and answers pulls from them.
//
// Kind:   owned by ShardLoop's thread; a pure core: it has no clock, socket or disk.
// Limits: those of its components.
// Fails:  answers Error: kStale (another generation or incarnation), kBusy (a newer step, or no room), kInvalid,
//         kCorrupt. CHECKs only on our own bugs.
// Why:    one owner per block makes updates lock-free, and makes a shard's behaviour a function of its messages.
//
// Life:   It sends Hello until a coordinator answers. Reset gives the catalog and the version to begin with; the shard
//         loads that version and then serves it. Its StepEngine makes new versions of it. The loop calls Flush() after
//         a batch of messages. Other threads execute what TakeDiskWork() and TakeLogWork() return, each in order.
// Parts:  the Shard checks to whom a message belongs, hands it to the component whose concern it is, and decides what
//         follows from the result. No component knows the Shard.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "common/base/backoff.h"
#include "common/wire/actor.h"
#include "common/wire/messages/snapshot_id.h"
#include "monitoring/metrics.h"
#include "server/shard/acknowledgements.h"
#include "server/shard/durable_identity.h"
#include "server/shard/initial_weights_gate.h"
#include "server/shard/pull_queue.h"
#include "server/shard/push_journal.h"
#include "server/shard/shard_context.h"
#include "server/shard/snapshot_keeper.h"
#include "server/shard/snapshot_load.h"
#include "server/shard/step_engine.h"
#include "server/storage/push_log.h"
#include "server/storage/shard_disk.h"

namespace capstan {
struct Ping;
struct Pin;
struct Reset;
struct Shutdown;
}  // namespace capstan

namespace capstan::server {

class Shard {
 public:
  Shard(ShardOptions options, std::shared_ptr<monitoring::ShardMetrics> metrics);

  void Handle(PeerId from, const Message& message, Instant now, Outbox* out);
  // Sends the acknowledgements gathered since the last call: one message per peer and batch.
  void Flush(Instant now, Outbox* out);
  // Repeats messages that have not been answered. Call at least every 100 ms.
  void Tick(Instant now, Outbox* out);
  // TakeDiskWork returns new work for the disk thread, in order. Handle takes the result of one piece of it.
  std::vector<DiskWork> TakeDiskWork() { return std::exchange(disk_work_, {}); }
  void Handle(DiskResult result, Instant now, Outbox* out);
  // TakeLogWork returns new work for the log thread, in order; there is none without durable acknowledgements. Handle
  // takes the result of one piece of it, and Flush() must follow.
  std::vector<LogWork> TakeLogWork() { return journal_ ? journal_->TakeWork() : std::vector<LogWork>{}; }
  void Handle(LogResult result, Instant now, Outbox* out);

  bool serving() const { return context_.store != nullptr && load_ == nullptr; }
  bool loading() const { return load_ != nullptr; }
  bool shut_down() const { return shut_down_; }
  // Why the coordinator refuses this shard; ok while it has not.
  const Status& refusal() const { return refusal_; }
  Generation generation() const { return context_.generation; }
  // The generation in which the served timeline began; it contains all pushes acknowledged durably since then.
  TimelineId timeline() const { return context_.timeline; }
  Version version() const { return context_.served.version; }
  Term term() const { return context_.term; }
  // The newest commit that the served version contains; null if it contains none.
  const Commit* last_commit() const { return context_.served.last_commit.get(); }
  // Requires serving().
  const BlockStore& store() const { return *context_.store; }
  // Whether version 0 still lacks weights from a worker, or is not yet in a snapshot.
  bool awaits_first_weights() const { return !gate_.is_open(); }
  const StepEngine& engine() const { return *engine_; }
  // Null unless acknowledgements are durable.
  const PushJournal* journal() const { return journal_.get(); }

 private:
  void HandleCoordinator(const Message& message, Instant now, Outbox* out);
  void On(const Ping& ping, Instant now, Outbox* out);
  void On(const Reset& reset, Instant now, Outbox* out);
  void On(const Commit& commit, Instant now, Outbox* out);
  void On(const Redo& redo, Instant now, Outbox* out);
  void On(const ClockUpdate& update, Instant now, Outbox* out);
  void On(const Pin& pin, Instant now, Outbox* out);
  void On(const RetainedSnapshots& retained, Instant now, Outbox* out);
  void On(const Shutdown& shutdown, Instant now, Outbox* out);

  void HandleWorker(PeerId from, const Message& message, Instant now, Outbox* out);
  // Whether a worker's message belongs to this incarnation and generation; if not, answers it.
  bool CheckFence(PeerId from, Generation generation, Incarnation incarnation, Outbox* out) const;
  void On(PeerId from, const Push& push, const Slice& payload, Instant now, Outbox* out);
  void On(PeerId from, const EndSlot& end, const Slice& payload, Instant now, Outbox* out);
  void On(PeerId from, const CoverageQuery& query, const Slice& payload, Instant now, Outbox* out);
  void On(PeerId from, const Pull& pull, const Slice& payload, Instant now, Outbox* out);
  void On(PeerId from, const UploadBlock& upload, const Slice& payload, Instant now, Outbox* out);

  // Takes the catalog and requests the blocks of the named version; the shard does not serve until they have arrived.
  Status Install(const Reset& reset, Instant now, Outbox* out);
  // Begins another generation of the served timeline.
  void GoOn(const Reset& reset);
  // Serves what was loaded, once nothing is missing, or reports why it cannot be served.
  void FinishReset(Instant now, Outbox* out);
  void FailReset(const std::string& reason, Outbox* out);
  void Resume(Instant now, Outbox* out);
  void PinSnapshot(SnapshotId id, Instant now, Outbox* out);
  void PinInitialWeights(Instant now, Outbox* out);
  Hello MakeHello() const;

  ShardContext context_;
  Acknowledgements acknowledgements_;
  std::unique_ptr<PushJournal> journal_;  // null unless acknowledgements are durable
  std::unique_ptr<StepEngine> engine_;
  PullQueue pulls_;
  InitialWeightsGate gate_;
  SnapshotKeeper snapshots_;
  DurableIdentity identity_;
  std::vector<DiskWork> disk_work_;

  std::unique_ptr<SnapshotLoad> load_;  // set between Reset and serving
  bool blocks_loaded_ = false;          // the blocks of the Reset under way are here; the log's pushes may be missing
  bool going_on_ = false;               // the Reset under way keeps what is served
  bool shut_down_ = false;
  Status refusal_;
  Backoff hello_backoff_;
  Instant last_coordinator_{};  // when the last message of the coordinator arrived
};

}  // namespace capstan::server
