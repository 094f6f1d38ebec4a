// MachineWorker: a simulated worker in a job with allreduce.local_reduce. It executes the commands of the real
// MachineReduceCore around a Session, as MachineReducer does. MachineBoard: the connections of a machine's workers.
//
// Kind:   the board is owned by the cluster and shared by its workers, each of which owns a MachineWorker.
// Why:    a group comes and goes independently of steps and generations, and the worker that pushes for the others may
//         be lost, or may have pushed only a part. The weights must still be those of every worker pushing by itself.
//         All rules are the core's; this class adds only delays and faults.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "common/base/random.h"
#include "common/data/catalog.h"
#include "tests/sim/cluster.h"
#include "tests/sim/mutants.h"
#include "worker/client/slot_sums.h"
#include "worker/machine/machine_reduce_core.h"
#include "worker/session/session.h"

namespace capstan::sim {

// The connections of one group. Each member makes calls to all members; their n-th calls belong together.
struct MachineLinks {
  struct Brought {
    train::MachineHead head;
    std::vector<client::SlotSums::PartialSum> parts;
  };
  std::set<int> connected;                    // ranks
  std::vector<std::map<int, Brought>> calls;  // by number of the call, then by rank
  bool is_aborted = false;
  bool is_lost = false;             // a member is gone; the others may not have noticed it yet
  std::optional<Instant> fails_at;  // when the members notice that one is lost or silent
};

class MachineBoard {
 public:
  MachineLinks* At(std::uint64_t epoch) { return &links_[epoch]; }

 private:
  std::map<std::uint64_t, MachineLinks> links_;  // never removed
};

class MachineWorker {
 public:
  struct Settings {
    std::uint64_t node = 0;
    const ClusterOptions* options = nullptr;
    const Catalog* catalog = nullptr;
    RandomStream* random = nullptr;
    BufferPool* sums = nullptr;
    MachineBoard* board = nullptr;
    Encoding encoding = Encoding::kFp32;
    Flaw flaw = Flaw::kNone;
    std::function<void(const char*)> count;
  };
  MachineWorker(Settings settings, session::Session* session);
  ~MachineWorker();
  MachineWorker(const MachineWorker&) = delete;
  MachineWorker& operator=(const MachineWorker&) = delete;

  void TakeGroup(const session::Session::MachineGrouping& group);
  void TakeStepDone(const session::Session::StepDone& left);
  // Takes a round whose gradients are computed. Returns how to push its parts, which the caller must have encoded in
  // place before the next Run().
  session::PushWay BeginRound(const session::RoundWork& work, float loss_scale,
                              const std::vector<client::SlotSums::PartialSum>& parts, Instant now);
  void Run(Instant now, Outbox* out);
  // Whether the round must not end yet: some blocks are not final, or this worker has to push sums for its machine.
  bool is_busy() const {
    const bool waits = settings_.flaw != Flaw::kRoundNotAwaited && !core_.may_end_round();
    return blocks_left_ > 0 || waits;
  }
  void EndRound();

 private:
  struct Step {
    train::BeginStepCommand begin;
    std::vector<BufferRef> sums;     // flat arrays; only at the first member
    std::vector<std::size_t> calls;  // call number of each begun bucket
    std::size_t finished = 0;        // how many buckets are finished
    train::HostAddition addition;
  };
  enum class Outcome { kWaits, kDone, kFailed };

  bool Strikes(double probability, Instant now);
  Instant Up_to(Instant most) { return Instant(static_cast<std::int64_t>(settings_.random->Below(most.count()))); }
  // How many more buckets a member may begin before it finishes the oldest one: 0 as on CPUs, or more as on devices.
  std::size_t ahead_max() const { return group_.epoch % 3; }
  template <class Event>
  void Tell(const Event& event);
  void FinishBlocks(Instant now);
  train::MachineCommand TakeCommand();

  // Each executes a command, and returns whether it is done; if not, Run() calls it again later.
  bool On(const train::FormGroupCommand& form, Instant now, Outbox* out);
  bool On(const train::MeetCommand& meet, Instant now, Outbox* out);
  bool On(train::BeginStepCommand& begin, Instant now, Outbox* out);
  bool On(const train::BeginBucketCommand& begin, Instant now, Outbox* out);
  bool On(const train::FinishBucketCommand& finish, Instant now, Outbox* out);
  bool On(const train::EndStepCommand& end, Instant now, Outbox* out);
  bool On(const train::DropGroupCommand& drop, Instant now, Outbox* out);
  bool On(const train::ReleaseRoundCommand& release, Instant now, Outbox* out);
  bool On(const train::KeepDeferredCommand& keep, Instant now, Outbox* out);
  bool On(const train::ReportGroupCommand& report, Instant now, Outbox* out);
  bool On(const train::NoticeCommand&, Instant, Outbox*) { return true; }
  bool On(const train::AbortGroupCommand&, Instant, Outbox*) { return true; }  // Tell has carried it out

  // Returns whether this worker's present call has succeeded, fails or still waits. `is_whole`: whether everything that
  // it waits for is here.
  Outcome Look(bool is_whole, Instant now);
  // Makes this worker's next call, with what it brings. Returns the call's number.
  std::size_t Bring(MachineLinks::Brought brought);
  bool IsWhole(std::size_t call) const { return links_->calls[call].size() == group_.members.size(); }
  bool Fail(const char* why);
  bool PushBucket(Instant now, Outbox* out);

  const Settings settings_;
  session::Session* const session_;
  const std::vector<train::Bucket> buckets_;
  train::MachineReduceCore core_;
  std::size_t blocks_left_ = 0;  // blocks of the round that the core does not know to be final
  bool is_slow_ = false;         // they become final one after the other

  std::deque<train::MachineCommand> commands_;
  std::optional<train::MachineCommand> present_;  // the command under way
  bool is_begun_ = false;                         // it was tried before

  // The group that is being formed or was formed last.
  session::Session::MachineGrouping group_;
  MachineLinks* links_ = nullptr;  // null: not connected
  std::size_t calls_ = 0;          // calls begun in the group
  Instant join_until_{};
  bool is_early_ = false;  // does not wait until the others have connected
  std::optional<Step> step_;
};

}  // namespace capstan::sim
