// Shard: applies pushes to its blocks and answers pulls from them.
//
// Kind:   owned by ShardLoop's thread; a pure core: it has no clock, socket or disk.
// Limits: those of its components.
// Fails:  answers a worker's message with Error: kStale (an older generation, another incarnation, or a version that is
//         gone), kBusy (a newer generation or step, not ready yet, or no room), kInvalid, kCorrupt. CHECKs only on our
//         own bugs.
// Why:    one owner per block makes updates lock-free, and makes a shard's behaviour a function of its messages.
//
// Life:   the shard repeats Hello while the coordinator is silent. Reset gives the catalog and the version to begin
//         with; the shard loads that version and then serves it. Its StepEngine makes the next versions. The loop calls
//         Flush() after a batch of messages. Other threads execute what TakeDiskWork() and TakeLogWork() return.
// Parts:  the Shard checks the generation and the incarnation that a message names, hands the message to a component,
//         and decides what follows from the result. No component knows the Shard.
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

  // A payload without an owner is lent, and may change: only messages for which TakesLent is true may have one.
  void Handle(PeerId from, const Message& message, Instant now, Outbox* out);
  // Call after a batch of messages. Sends the gathered acknowledgements, requests an append to the log, and answers
  // parked pulls that the batch has made ready, and those whose senders have room again. Returns whether a pull still
  // waits for its sender to take what it was sent before: then call it often, also without a batch.
  bool Flush(Instant now, Outbox* out);
  // Repeats messages to the coordinator and other shards that were not answered. Call every engine().tick_every().
  void Tick(Instant now, Outbox* out);
  // TakeDiskWork returns new work for the disk thread, to be executed in order. Handle takes the result of one piece.
  std::vector<DiskWork> TakeDiskWork() { return std::exchange(disk_work_, {}); }
  void Handle(DiskResult result, Instant now, Outbox* out);
  // TakeLogWork returns new work for the log thread, to be executed in order. There is none unless acknowledgements are
  // durable. Handle takes the result of one piece, and Flush() must follow.
  std::vector<LogWork> TakeLogWork() { return journal_ ? journal_->TakeWork() : std::vector<LogWork>{}; }
  void Handle(LogResult result, Instant now, Outbox* out);

  bool serving() const { return context_.store != nullptr && load_ == nullptr; }
  bool loading() const { return load_ != nullptr; }
  bool shut_down() const { return shut_down_; }
  // Why the coordinator refused this shard; ok if it did not.
  const Status& refusal() const { return refusal_; }
  Generation generation() const { return context_.generation; }
  // The timeline that is served or being loaded. It has the number of the generation in which it began.
  TimelineId timeline() const { return context_.timeline; }
  Version version() const { return context_.served.version; }
  Term term() const { return context_.term; }
  const SessionTable& sessions() const { return context_.sessions; }
  // The Commit that made the served version. Null: the version was loaded, is version 0, or the mode has no commits.
  const Commit* last_commit() const { return context_.served.last_commit.get(); }
  // Requires serving().
  const BlockStore& store() const { return *context_.store; }
  // Whether the first weights come from a worker, and are incomplete here or in no snapshot yet.
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
  void On(PeerId from, const Push& push, const Slice& payload, Instant now, Outbox* out);
  void On(PeerId from, const EndSlot& end, const Slice& payload, Instant now, Outbox* out);
  void On(PeerId from, const CoverageQuery& query, const Slice& payload, Instant now, Outbox* out);
  void On(PeerId from, const Pull& pull, const Slice& payload, Instant now, Outbox* out);
  void On(PeerId from, const UploadBlock& upload, const Slice& payload, Instant now, Outbox* out);

  // Begins with the catalog and the version that a Reset names, and requests its blocks; the shard does not serve until
  // they have arrived. Fails without any change if the Reset cannot be carried out.
  Status Install(const Reset& reset, Instant now, Outbox* out);
  // Begins another generation of the served timeline, with the weights that are served.
  void GoOn(const Reset& reset);
  // Confirms the Reset under way to the coordinator once nothing is missing, or reports why it cannot be carried out.
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
  std::uint64_t fetch_key_ = 0;         // of the newest Reset; 0: none
  bool logged_impossible_ = false;      // numbers that no coordinator of this job has were logged
  bool shut_down_ = false;
  Status refusal_;
  Backoff hello_backoff_;
  Instant last_coordinator_{};  // when the last message of the coordinator arrived
};

// Whether the shard's Handle, called next with this message, would read its payload once and keep none of it.
bool TakesLent(const Shard& shard, const Header& header);

}  // namespace capstan::server
