// Commands of MachineReduceCore.
//
// Kind:   values.
// Why:    the rules of machine reduction run without threads and connections, so the simulator runs them too.
//
// The group's thread carries out its commands in order. To a command whose comment names an answer, it answers by
// calling that function of MachineReduceCore, or Failed. Only one command at a time waits for its answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/wire/messages/group_state.h"
#include "worker/client/machine_round.h"
#include "worker/machine/machine_sums.h"
#include "worker/session/session_events.h"

namespace capstan::train {

// Connect the members and choose their adder. The thread first calls Offered with this worker's address, and waits
// until Addresses() has those of all members. Answer: Formed.
struct FormGroupCommand {
  session::MachineGrouping group;
};
// Exchange this worker's head (what it has for the step) with all members. Answer: Met.
struct MeetCommand {
  MachineHead head;
};
// The members begin to add up the sums of this plan. No answer.
struct BeginStepCommand {
  client::MachineRound round;
  MachinePlan plan;
  bool is_first = false;  // this worker receives the parts, adds them and pushes the sums
};
// Hand this worker's parts of the bucket to the adder. Answer: BucketBegun.
struct BeginBucketCommand {
  std::size_t bucket = 0;
};
// Finish the oldest begun bucket. The first member pushes its sums. Answer: BucketFinished.
struct FinishBucketCommand {};
// Forget the step: all its sums are made. No answer.
struct EndStepCommand {};
// Disconnect from the group, if it was connected. No answer.
struct DropGroupCommand {};

// For the session: send the round's deferred pushes. Answer: Settled.
struct ReleaseRoundCommand {
  std::uint64_t round = 0;
};
// For the session: the sums of the round are made, so the round's deferred pushes stay deferred. Answer: Settled.
struct KeepDeferredCommand {
  std::uint64_t round = 0;
};
// For the session: this worker's state in forming the group. No answer.
struct ReportGroupCommand {
  std::uint64_t epoch = 0;
  GroupState state = {};  // kNone
  std::string text;
};
// Tell the user. No answer.
struct NoticeCommand {
  std::string text;
};

// Not queued for the thread: abort the group at once, so that the command that the thread is in fails.
struct AbortGroupCommand {};

using MachineCommand = std::variant<FormGroupCommand, MeetCommand, BeginStepCommand, BeginBucketCommand,
                                    FinishBucketCommand, EndStepCommand, DropGroupCommand, ReleaseRoundCommand,
                                    KeepDeferredCommand, ReportGroupCommand, NoticeCommand, AbortGroupCommand>;

}  // namespace capstan::train
