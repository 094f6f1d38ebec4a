// MachineReduceCore: decides which gradients a worker sums with the other workers of its machine, what it pushes by
// itself, and when their group is over.
//
// Kind:   a value without thread, clock or connection; its owner serializes the calls.
// Fails:  never. A broken group is reported to the coordinator, which has the members form another one (unless another
//         group would fail too).
// Why:    a pushed sum must hold the pushes of all workers in it, whichever worker is lost in the middle. The simulator
//         runs this class too.
//
// State:    the newest group that the coordinator announced; the group that the thread works in; the newest round.
// Events:   TakeGroup and TakeStepDone from the session; BeginRound, BlockReady, GiveUpRound and Stop from the
//           application; the other ones from the group's thread, as the answers to its commands.
// Commands: machine_commands.h. An event appends its commands to `out`; at most the last one has an answer.
// Course:   Form the group. Then for each step: meet the members, add up bucket by bucket, and keep this worker's own
//           pushes deferred; if there is nothing to add up, release them. When the group is over or has failed, drop
//           the group and release the newest round. The next group takes over no state.
//
// No rule depends on the time. Members wait for each other as long as all of them live, and the group's connections
// notice a member that is lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "worker/machine/machine_commands.h"
#include "worker/session/push_way.h"

namespace capstan::train {

class MachineReduceCore {
 public:
  using Commands = std::vector<MachineCommand>;

  // `buckets`: in the order in which they are sent.
  explicit MachineReduceCore(const std::vector<Bucket>& buckets);

  // ---- from the session
  void TakeGroup(const session::MachineGrouping& group, Commands* out);
  // The worker has nothing more to do in the step. If it has begun no round of the step by now, the members need not
  // wait for its gradients.
  void TakeStepDone(const session::StepDone& left, Commands* out);

  // ---- from the application
  // The last slot of a round has begun. Returns how its parts are to be pushed.
  session::PushWay BeginRound(client::MachineRound round, Commands* out);
  // The round's gradients of this block are final.
  void BlockReady(BlockIndex block, Commands* out);
  // The application ends the round. Blocks that are not ready by now never will be.
  void GiveUpRound(Commands* out);
  void Stop(Commands* out);

  // ---- from the group's thread
  void Offered(std::string address, Commands* out);
  // The group is connected. `ahead_max`: how many further buckets its adder may begin before the oldest is finished.
  void Formed(std::size_t ahead_max, Commands* out);
  void Met(const std::vector<MachineHead>& heads, Commands* out);  // by rank
  void BucketBegun(Commands* out);
  void BucketFinished(Commands* out);
  void Settled(Commands* out);
  void Failed(const Status& why, Commands* out);

  // Whether the group that the thread works in is over.
  bool is_over() const { return stopping_ || wanted_.epoch != group_.epoch; }
  // The addresses of the group's members by rank, once all are known; empty before. kStale: the group is over.
  Result<std::vector<std::string>> Addresses() const;
  // Whether the application's round may end: this worker has no sum left to push for the group.
  bool may_end_round() const;
  // Whether the thread may end: Stop was called, and no group is left to drop.
  bool has_ended() const { return stopping_ && state() == State::kNone; }

 private:
  // A round of this worker, from the beginning of its last slot on; or a step that it has left without a round.
  struct Round {
    client::MachineRound offer;
    std::uint64_t epoch = 0;                    // epoch of the group that sums this round; 0: pushed without a group
    std::vector<std::size_t> blocks_missing;    // blocks that are not final, by bucket
    bool is_given_up = false, is_done = false;  // done: the session has the order to send or keep the pushes

    bool IsWhole() const;
    std::pair<Generation, Step> when() const { return {offer.generation, offer.step}; }
  };
  enum class State {
    kNone,      // no group
    kForming,   // FormGroupCommand is under way
    kIdle,      // waits for a round
    kMeeting,   // MeetCommand is under way
    kAdding,    // between BeginStepCommand and EndStepCommand
    kSettling,  // ReleaseRoundCommand or KeepDeferredCommand is under way
    kEnding,    // ReleaseRoundCommand is under way, after DropGroupCommand
  };
  // The group that the thread works in. The next group replaces it as a whole.
  struct Group {
    State state = State::kNone;
    std::uint64_t epoch = 0;
    int rank = 0;
    std::string address;  // this worker's
    bool is_formed = false;
    std::size_t ahead_max = 0;
    std::shared_ptr<Round> served;  // the last round that the group is done with
    std::shared_ptr<Round> round;   // the present round
    bool is_asked = false;          // the thread has a command that it has not answered
    // Numbers of the present round's buckets: begun, finished, and how many to finish before the next is begun.
    std::size_t begun = 0, finished = 0, due = 0;
    Status why;  // in kEnding: the reason to report; OK: nothing to report
  };

  State state() const { return group_.state; }
  void Ask(MachineCommand command, Commands* out);
  void Answered();
  // Goes on as far as possible without an answer of the thread.
  void Advance(Commands* out);
  void BeginGroup(Commands* out);
  void Meet(Commands* out);
  void AdvanceStep(Commands* out);
  void Settle(MachineCommand command, Commands* out);
  void EndGroup(const Status& why, Commands* out);
  void ReportEnd(Commands* out);
  bool HasCome(std::size_t bucket) const;

  std::vector<std::size_t> blocks_in_;  // the number of blocks in each bucket
  std::vector<std::size_t> bucket_of_;  // the bucket of each block

  bool stopping_ = false;
  session::MachineGrouping wanted_;  // the newest group that the coordinator announced
  std::uint64_t tried_ = 0;          // epoch of the last `wanted_` that BeginGroup has handled
  std::shared_ptr<Round> newest_;    // the newest round or left step
  std::shared_ptr<Round> computed_;  // the application's round; null: none, or its blocks are not needed
  Group group_;
};

}  // namespace capstan::train
