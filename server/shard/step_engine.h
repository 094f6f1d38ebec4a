// StepEngine: the part of a shard that depends on the mode: how pushes become weights, and when weights are published.
//
// Kind:   interface, owned by the Shard. SyncStep gathers the pushes of a step and publishes when the coordinator
//         decides; ReplicatedStep gets the blocks that workers computed; ClockedStep applies each push on arrival.
// Fails:  a message that cannot be taken is answered with an Error. Messages of another mode are ignored.
// Why:    the mode decides once, in CreateStepEngine, which object the Shard owns. In the rest of server/shard only
//         admission.h and shard_memory.cc depend on the mode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/wire/actor.h"
#include "server/shard/admission.h"
#include "server/shard/log_queue.h"
#include "server/shard/shard_context.h"
#include "server/storage/snapshot.h"

namespace capstan {
struct UploadBlock;
struct Commit;
struct CoverageQuery;
struct EndSlot;
struct Hello;
struct Pull;
struct Push;
struct ClockUpdate;
struct Redo;
}  // namespace capstan

namespace capstan::server {

class Acknowledgements;
class PushJournal;

class StepEngine {
 public:
  // The version of a block's weights, and how many updates they contain.
  struct BlockVersion {
    Version version;
    std::uint64_t updates = 0;
  };
  // An attempt at the next version whose prepared blocks may be sent before it is published.
  struct Speculation {
    Version version;
    std::uint32_t attempt = 0;
  };
  enum class CommitOutcome { kIgnored, kRepeated, kPublished };
  enum class RedoOutcome { kIgnored, kRepeated, kRedone };

  virtual ~StepEngine() = default;

  // ---- beginnings and snapshots
  // Begins with the context's blocks; forgets everything else.
  virtual void Reset() = 0;
  // Takes update counts, sequence numbers and reports from a snapshot's headers. The first argument holds the entry of
  // each block, by index in the store; null if there is no snapshot.
  virtual void Load(const std::vector<const SnapshotHeader::BlockEntry*>&, const std::vector<SnapshotHeader>&) {}
  // Fills in what Load() takes. The snapshot's header already has an entry for each block.
  virtual void Describe(SnapshotHeader*) const {}
  virtual void Describe(Hello*) const {}
  // Begins the step under way again, because a new generation goes on with the served weights.
  virtual void Restart() = 0;
  // Whether a new generation can go on with the served weights although the shard has no log of pushes.
  virtual bool CanGoOn() const { return false; }

  // ---- workers' messages; the Shard has checked that `session` is alive
  // Whether workers push gradients here. If not, they reduce them among themselves.
  virtual bool takes_pushes() const { return true; }
  // Whether workers upload blocks of versions, besides the first weights.
  virtual bool takes_uploads() const { return false; }
  // Whether Handle would update the push's block at once, and keep none of the payload. If so, the payload may be lent:
  // without an owner, and with bytes that may change.
  virtual bool TakesLent(const Push&) const { return false; }
  // Takes a push that is checked, but for the hash of a payload that is lent. If the push completes its block, so that
  // the next version is prepared, returns the block's index in the store.
  virtual std::optional<std::size_t> Handle(PeerId from, const Push& push, const Slice& payload, Instant now,
                                            Outbox* out) = 0;
  // Takes the end of a home slot.
  virtual void Handle(PeerId from, const EndSlot& end, Instant now, Outbox* out) = 0;
  // Answers a CoverageQuery whose `question` is 0: which pushes and ends of slots are here. Returns whether the Shard
  // must forget this worker's parked pull.
  virtual bool Handle(PeerId from, const CoverageQuery& query, Outbox* out) = 0;
  // Whether this push is staged or applied, or its step is over.
  virtual bool Holds(std::size_t index, Step step, Node node) const = 0;
  // Takes an array of a block of a version that workers computed. Called only if takes_uploads().
  virtual void Handle(PeerId, const UploadBlock&, const Slice&, Instant, Outbox*) {}
  // Sends the acknowledgements that were gathered since the last call.
  virtual void Acknowledge(Outbox* out) = 0;

  // ---- records that are in the log
  virtual void Apply(const LogQueue::Appended&) {}
  // Applies a record that is replayed from the log, unless the record is already applied.
  virtual Status Replay(const PushLogRecord&) { return Invalid("a job with global steps has no log of pushes"); }

  // ---- the coordinator's decisions, for the present generation
  virtual CommitOutcome Handle(const Commit&) { return CommitOutcome::kIgnored; }
  virtual RedoOutcome Handle(const Redo&, Instant, Outbox*) { return RedoOutcome::kIgnored; }
  virtual void Handle(const ClockUpdate&) {}
  // Whether the shards are to have the published version, which workers still upload. A snapshot of it then waits, and
  // if it is the last one, so does the answer to its Commit.
  virtual bool awaits_uploads() const { return false; }
  // Reports the step under way to the coordinator if nothing of it is missing and it was not reported yet.
  virtual void ReportWhenComplete(Instant, Outbox*) {}
  // Reports progress to the coordinator, and repeats reports. Requires that the shard serves.
  virtual void Tick(Instant now, Outbox* out) = 0;
  virtual Instant tick_every() const = 0;

  // ---- what pulls get
  virtual PullAdmission Admit(const Pull& pull) const = 0;
  // Whether parked pulls may have become ready without the publication of a version.
  virtual bool PullsMayBeReady() const { return false; }
  // `array`: as in a Pull.
  virtual BlockVersion VersionOf(std::size_t index, std::uint32_t array) const = 0;
  // Whether this shard has the array of this version's blocks. False only in allreduce and in external jobs, for
  // versions that only workers have.
  virtual bool HasBlocksOf(Version, std::uint32_t) const { return true; }
  // Whether a request for a snapshot of this version can be answered now; false: the version is not published here yet.
  virtual bool CanPin(Version version) const = 0;
  // Whether whole versions are published, with a Published for each pull that waits for one.
  virtual bool publishes() const = 0;
  virtual std::optional<Speculation> speculation() const { return std::nullopt; }
  virtual bool IsPrepared(std::size_t) const { return false; }

  // ---- for tests and metrics
  virtual bool prepared() const { return false; }
  virtual std::uint32_t attempt() const { return 0; }
  virtual std::uint64_t hash_mismatches() const { return 0; }
  virtual std::uint64_t staged_bytes() const { return 0; }
  // For modes without global steps: how many pushes have changed a block, and the newest sequence number of each slot
  // that is applied to the block.
  virtual std::uint64_t updates(std::size_t) const { return 0; }
  virtual std::span<const SequenceNumber> sequence_numbers(std::size_t) const { return {}; }
};

// Makes the engine for the options' mode. `served`: shard.served, which the engine changes. `journal`: null unless
// acknowledgements are durable.
std::unique_ptr<StepEngine> CreateStepEngine(const ShardContext& shard, ServedStep* served,
                                             Acknowledgements* acknowledgements, PushJournal* journal);

}  // namespace capstan::server
