// StepEngine: how pushes become weights, and when these are published: the part of a shard that depends on the mode.
//
// Kind:   interface, owned by the Shard. SyncStep sums the pushes of a step and publishes when the coordinator decides;
//         ReplicatedStep gets the blocks that workers computed; ClockedStep applies each push on arrival.
// Fails:  a message that cannot be taken is answered with an Error. Messages of another mode are ignored.
// Why:    the mode decides once, in CreateStepEngine, which object the Shard owns. Besides, only the rules of
//         admission and the account of memory ask for the mode.
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

  // ---- its beginning
  // Begins with the context's blocks; forgets everything else.
  virtual void Reset() = 0;
  // Takes updates, sequence numbers and reports from a snapshot's headers. `blocks`: the entries of blocks, by index in
  // the store; null where there is none.
  virtual void Load(const std::vector<const SnapshotHeader::BlockEntry*>&, const std::vector<SnapshotHeader>&) {}
  // Adds to a snapshot's header what Load() takes; the header has an entry for each block.
  virtual void Describe(SnapshotHeader*) const {}
  virtual void Describe(Hello*) const {}
  // Begins the step under way again, because another generation continues with what is served.
  virtual void Restart() = 0;
  // Whether another generation can go on with what is served, without a log of pushes.
  virtual bool CanGoOn() const { return false; }

  // ---- workers' messages
  virtual Status Check(const Push& push, const Slice& payload) const = 0;
  // Takes a checked push. Returns the block that is prepared with it, if any.
  virtual std::optional<std::size_t> Handle(PeerId from, const Push& push, const Slice& payload, Instant now,
                                            Outbox* out) = 0;
  // Takes the end of a home slot.
  virtual void Handle(PeerId from, const EndSlot& end, Instant now, Outbox* out) = 0;
  // Acknowledges all pushes and ends of slots that are here. Returns whether the pull of this worker is forgotten.
  virtual bool Handle(PeerId from, const CoverageQuery& query, Outbox* out) = 0;
  // Whether this push is staged or applied.
  virtual bool Holds(std::size_t index, Step step, Node node) const = 0;
  // Takes a block of the version that workers compute. Returns false if workers compute none.
  virtual bool Handle(PeerId, const UploadBlock&, const Slice&, Instant, Outbox*) { return false; }
  // Sends the acknowledgements that were made since the last call.
  virtual void Acknowledge(Outbox* out) = 0;

  // ---- records that are in the log
  virtual void Apply(const LogQueue::Appended&) {}
  // Applies a record, unless it is already applied.
  virtual Status Replay(const PushLogRecord&) { return Invalid("a job with global steps has no log of pushes"); }

  // ---- the coordinator's decisions, for the present generation
  virtual CommitOutcome Handle(const Commit&) { return CommitOutcome::kIgnored; }
  virtual RedoOutcome Handle(const Redo&, Instant, Outbox*) { return RedoOutcome::kIgnored; }
  virtual void Handle(const ClockUpdate&) {}
  // Reports the step under way once nothing of it is missing.
  virtual void ReportWhenComplete(Instant, Outbox*) {}
  // Reports progress, and repeats reports. Requires that the shard serves.
  virtual void Tick(Instant now, Outbox* out) = 0;
  virtual Instant tick_every() const = 0;

  // ---- what pulls get
  virtual PullAdmission Admit(const Pull& pull) const = 0;
  // Whether parked pulls may have become ready since the last report, without a publication.
  virtual bool PullsMayBeReady() const { return false; }
  virtual BlockVersion VersionOf(std::size_t index) const = 0;
  // Whether the blocks that a pull of this version asks for are on servers.
  virtual bool HasBlocksOf(Version) const { return true; }
  // Whether a snapshot of this version can be requested now; false: its publication is in flight.
  virtual bool CanPin(Version version) const = 0;
  // Whether whole versions are published, so that a pull can follow them.
  virtual bool publishes() const = 0;
  virtual std::optional<Speculation> speculation() const { return std::nullopt; }
  virtual bool IsPrepared(std::size_t) const { return false; }

  // ---- for tests and metrics
  virtual bool prepared() const { return false; }
  virtual std::uint32_t attempt() const { return 0; }
  virtual std::uint64_t hash_mismatches() const { return 0; }
  virtual std::uint64_t staged_bytes() const { return 0; }
  // For modes without global steps: how many pushes have changed a block, and the newest one of each slot that was
  // applied to it.
  virtual std::uint64_t updates(std::size_t) const { return 0; }
  virtual std::span<const SequenceNumber> sequence_numbers(std::size_t) const { return {}; }
};

// Makes the engine for the options' mode. `served`: the context's. `journal`: null unless acknowledgements are durable.
std::unique_ptr<StepEngine> CreateStepEngine(const ShardContext& shard, ServedStep* served,
                                             Acknowledgements* acknowledgements, PushJournal* journal);

}  // namespace capstan::server
