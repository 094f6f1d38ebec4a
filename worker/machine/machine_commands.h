// Commands of MachineReduceCore.
//
// Kind:   values.
// Why:    the rules of machine reduction run without threads and connections, so the simulator runs them too.
//
// The group's thread carries out its commands one after the other, in order. It answers a command with the event that
// the command's comment names, or with MachineReduceCore::Failed. It answers before it takes the next command.
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

// Connect the members and choose their adder. Answers: Offered, with this worker's address, and then Formed, when
// Addresses() has given the addresses of all.
struct FormGroupCommand {
  session::MachineGrouping group;
};
// Exchange heads with all members. Answer: Met.
struct MeetCommand {
  MachineHead head;
};
// The members at this step add up the plan's sums. No answer.
struct BeginStepCommand {
  client::MachineRound round;
  MachinePlan plan;
  bool is_first = false;  // this worker adds up and pushes
};
// Hand over this worker's parts of the bucket, when all members have reached it. Answer: BucketBegun.
struct BeginBucketCommand {
  std::size_t bucket = 0;
};
// Finish the oldest begun bucket. The first member pushes its sums. Answer: BucketFinished.
struct FinishBucketCommand {};
// All sums of the step are made. No answer.
struct EndStepCommand {};
// Disconnect from the group, if it was connected. No answer.
struct DropGroupCommand {};

// For the session: the round's deferred pushes are to be sent. Answer: Settled.
struct ReleaseRoundCommand {
  std::uint64_t round = 0;
};
// For the session: the sums of the round are made, so its deferred pushes wait for their acknowledgement. Answer:
// Settled.
struct KeepDeferredCommand {
  std::uint64_t round = 0;
};
// For the session: this worker's state in forming the group. No answer.
struct ReportGroupCommand {
  std::uint64_t epoch = 0;
  GroupState state = {};  // kNone
  std::string text;
};
// For the log. No answer.
struct NoticeCommand {
  std::string text;
};

// Not for the thread: end the group at once, whatever the thread does, so that the thread's present command fails.
struct AbortGroupCommand {};

using MachineCommand = std::variant<FormGroupCommand, MeetCommand, BeginStepCommand, BeginBucketCommand,
                                    FinishBucketCommand, EndStepCommand, DropGroupCommand, ReleaseRoundCommand,
                                    KeepDeferredCommand, ReportGroupCommand, NoticeCommand, AbortGroupCommand>;

}  // namespace capstan::train
