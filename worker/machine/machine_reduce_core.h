// MachineReduceCore: decides what a worker of a machine adds up with its neighbours, what it pushes by itself, and when
// their group is over.
//
// Kind:   a value without thread, clock or connection; its owner serializes the calls.
// Fails:  never. A group that breaks is reported to the coordinator, which has the members form another one.
// Why:    one push of the machine must be all pushes of its workers, whoever is lost in the middle. The simulator runs
//         this class too.
//
// State:    the newest group that the coordinator announced; the group that the thread works in; the newest round.
// Events:   TakeGroup and TakeStepDone from the session; BeginRound, BlockReady, GiveUpRound and Stop from the application;
//           the other ones from the group's thread, as the answers to its commands.
// Commands: machine_commands.h. An event appends its commands to `out`; at most the last one has an answer.
// Life:     Form the group. Then for each step: meet the members, add up bucket by bucket, and keep the own pushes
//           deferred; if there is nothing to add up, release them. When the group is over or has failed, drop it and
//           release the newest round; the next group begins with nothing of it.
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
  // The worker has nothing more to do in the step. Members need not wait for gradients that it has not offered by now.
  void TakeStepDone(const session::StepDone& left, Commands* out);

  // ---- from the application
  // The last slot of a round has begun. Returns how its parts are to be pushed.
  session::PushWay BeginRound(client::MachineRound round, Commands* out);
  // All parts of this block are final.
  void BlockReady(BlockIndex block, Commands* out);
  // The round ends early: no further block becomes ready.
  void GiveUpRound(Commands* out);
  void Stop(Commands* out);

  // ---- from the group's thread
  void Offered(std::string address, Commands* out);
  // `ahead_max`: as in BucketAdder.
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
  // Whether the application's round may end: this worker has pushed all sums that it pushes for the group.
  bool may_end_round() const;
  // Whether the thread has nothing more to do, ever.
  bool has_ended() const { return stopping_ && state() == State::kNone; }

 private:
  // A round of this worker from its last slot on, or a step that it has left without a round.
  struct Round {
    client::MachineRound offer;
    std::uint64_t epoch = 0;                    // epoch of the group at the round's beginning; 0: none
    std::vector<std::size_t> blocks_missing;    // blocks that are not final, by bucket
    bool is_given_up = false, is_done = false;  // done: the group needs it no more

    bool IsWhole() const;
    std::pair<Generation, Step> when() const { return {offer.generation, offer.step}; }
  };
  enum class State {
    kNone,      // no group
    kForming,   // FormGroup is under way
    kIdle,      // waits for a round
    kMeeting,   // MeetCommand is under way
    kAdding,    // between BeginStep and EndStep
    kSettling,  // ReleaseRound or KeepDeferred is under way
    kEnding,    // the same, after DropGroup
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
    // The present round's buckets: begun, finished, and those to finish before anything else.
    std::size_t begun = 0, finished = 0, due = 0;
    Status why;  // kEnding: the reason, for the coordinator; OK: it needs none
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
  session::MachineGrouping wanted_;  // the newest group
  std::uint64_t tried_ = 0;          // epoch of the newest group that was begun, or that needs no beginning
  std::shared_ptr<Round> newest_;    // the newest round or left step
  std::shared_ptr<Round> computed_;  // the application's round; null: its blocks are not needed
  Group group_;
};

}  // namespace capstan::train
