// AllReduceCore: the rules of a worker in mode allreduce: which version its replica has, how the workers of a
// generation form their group, what a round adds up and reports, and what a lost member or another generation changes.
//
// Kind:   a pure core. It takes an event and the time, and returns commands. Its owner has the replica's arrays, the
//         connections, the devices and the session: ReplicaClient in production, ReplicaWorker in the simulator.
// Fails:  status() says why a round cannot go on. A failure ends the group. Its worker reports that to the coordinator,
//         which begins another generation (see Fail for the exceptions).
// Why:    a group lasts at most as long as its generation. A worker that joins or comes back gets the version from a
//         member that has it. If no member has it, rank 0 reads it from the shards and sends it to all.
//
// Calls:  BeginRound -> Settle -> (in a new generation: OfferAddress -> TakeGroup -> Connected -> (VersionRead) ->
//         (VersionShared) -> DevicesFormed) -> BeginSlot, FinishBlock..., EndSlot for each slot -> SamplesReduced ->
//         BucketReduced... -> VersionBuilt -> BeginRound. The version that was built becomes the present one when a
//         later round names it, that is, when the coordinator has committed the step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/data/catalog.h"
#include "worker/allreduce/all_reduce_commands.h"
#include "worker/allreduce/replica.h"
#include "worker/allreduce/replica_version.h"
#include "worker/allreduce/step_sums.h"
#include "worker/allreduce/version_offers.h"
#include "worker/collective/buckets.h"
#include "worker/session/session_events.h"

namespace capstan::train {

class AllReduceCore {
 public:
  // `buckets`: in the order in which they are reduced; `replica_bytes`: weights and optimizer state of one version.
  // `catalog` must outlive the core.
  AllReduceCore(const Catalog& catalog, std::vector<Bucket> buckets, std::uint64_t replica_bytes);

  // ---- between rounds
  void BeginRound(const session::WorkReady& ready);
  // The application waits for the announced round. Returns the commands that make version and group ready for the
  // round.
  AllReduceCommands Settle(Instant now);
  // The session ended the round, for the reason `why`. A group that is forming, or that this round uses, ends too.
  AllReduceCommands EndRound(const Status& why);
  // The application asks for another round. If other members may wait for this round's sums, the group ends.
  AllReduceCommands GiveUpRound();

  // ---- forming the group
  AllReduceCommands OfferAddress(const std::string& address);
  AllReduceCommands TakeGroup(const session::GroupKnown& known);
  AllReduceCommands Tick(Instant now);
  AllReduceCommands Connected(Instant now);
  AllReduceCommands VersionRead();
  AllReduceCommands VersionShared();
  AllReduceCommands DevicesFormed(bool on_devices);

  // A command failed; the group ends. Two failures of a group that is forming are not reported to the coordinator:
  // kStale (the generation is over anyway) and kUnsupported (another group would fail too; the application gets it).
  AllReduceCommands Fail(const Status& why);

  // ---- a step
  AllReduceCommands BeginSlot(std::uint64_t samples);
  AllReduceCommands FinishBlock(BlockIndex block);
  AllReduceCommands EndSlot(SlotReport report);
  AllReduceCommands SamplesReduced(std::uint64_t samples);
  AllReduceCommands BucketReduced();
  AllReduceCommands VersionBuilt(const Replica::Outcome& outcome);

  // Why the round cannot go on, so that the application must ask for another round. OK: nothing has failed.
  const Status& status() const { return status_; }
  bool is_idle() const { return state_ == State::kIdle; }
  // A round was announced, and the application cannot compute it yet.
  bool is_settling() const { return state_ >= State::kAnnounced && state_ <= State::kWaiting; }
  bool awaits_addresses() const { return state_ == State::kOffered; }
  // The generation's group is over, so only another generation brings work.
  bool awaits_generation() const { return state_ == State::kWaiting; }
  bool is_computing() const { return state_ == State::kComputing; }
  bool has_group() const { return group_.formed; }
  Generation generation() const { return group_.generation; }  // of the newest group; 0: none yet
  const session::RoundWork& work() const { return round_.work; }
  const StepSums& sums() const { return round_.sums; }
  const ReplicaVersion& version() const { return version_; }

 private:
  enum class State {
    kIdle,
    kAnnounced,
    kMeeting,
    kOffered,
    kConnecting,
    kReading,
    kSharing,
    kAgreeing,
    kWaiting,
    kComputing,
    kReducing
  };
  struct Round {
    session::RoundWork work;
    float loss_scale = 1.0F;
    StepSums sums;
  };
  // A generation's group.
  struct Group {
    Generation generation;
    bool formed = false;
    bool on_devices = false;   // devices reduce the buckets
    bool has_version = false;  // this worker offers the version to the others
    VersionOffers offers;
    Instant deadline{};  // for all to be connected; later, for all to have the version
  };

  bool is_forming() const { return state_ >= State::kMeeting && state_ <= State::kAgreeing; }
  bool TakeVersion(AllReduceCommands* out);
  void Form(Instant now, AllReduceCommands* out);
  AllReduceCommands Share(int root);
  AllReduceCommands Agree();
  // Ends the group and reports why to the coordinator, which begins another generation.
  AllReduceCommands Break(GroupState state, const Status& why);
  // Ends the group without a report to the coordinator.
  AllReduceCommands LeaveGroup(State next, const Status& why);
  EndGroup End();
  std::vector<BlockIndex> BlocksToUpload() const;

  const Catalog& catalog_;
  const std::vector<Bucket> buckets_;
  const std::vector<std::size_t> bucket_of_;  // by block
  const std::uint64_t replica_bytes_;

  ReplicaVersion version_;
  Group group_;
  Round round_;
  State state_ = State::kIdle;
  Status status_;
};

}  // namespace capstan::train
