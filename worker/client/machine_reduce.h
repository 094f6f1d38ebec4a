// MachineReduce: adds up the pushes of the workers on one machine, so that one of them pushes for all.
//
// Kind:   the session's thread calls TakeGroup and TakeStepDone, the application's thread the rest.
// Fails:  never: if pushes cannot be added up in time, each worker sends its own.
// Why:    shards accept a node of the reduction tree from any worker, so this changes only the number of bytes sent.
//         With this interface, the client does not depend on how workers reach each other.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "worker/client/machine_round.h"
#include "worker/session/session_loop.h"

namespace capstan::client {

class MachineReduce {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  // Sends a command to the session's thread; callable from any thread.
  using SendCommand = std::function<void(session::Command&&)>;

  using Round = MachineRound;

  virtual ~MachineReduce() = default;

  // Called once, before all other methods. `catalog` outlives this object.
  virtual void Begin(const Catalog& catalog, Encoding encoding, SendCommand send) = 0;
  // After Stop has returned, `send` is not called any more. Stop itself may still call `send`.
  virtual void Stop() = 0;

  virtual void TakeGroup(const session::Session::MachineGrouping& group) = 0;
  // Notes that this worker has done all its slots of the step. Other workers need not wait for gradients that this
  // worker has not offered by now.
  virtual void TakeStepDone(const session::Session::StepDone& left) = 0;

  // Call when the last slot of a round begins. Returns how the round's parts are to be pushed.
  virtual session::PushWay BeginRound(Round round) = 0;
  // Notes that all parts of this block are final and do not change any more.
  virtual void BlockReady(BlockIndex block) = 0;
  // Waits until this worker has pushed all sums that it pushes for the group. Returns false if the deadline is first.
  virtual bool Done(Deadline deadline) = 0;
  // Ends the round early: no further block becomes ready.
  virtual void GiveUpRound() = 0;

  // Bytes of gradients that were added up, and bytes sent to other workers for it.
  struct Counters {
    std::uint64_t reduced_bytes = 0, bytes_out = 0;
    std::uint64_t groups_formed = 0, device_groups_formed = 0;  // device groups are counted in both
  };
  virtual Counters counters() const = 0;
};

}  // namespace capstan::client
