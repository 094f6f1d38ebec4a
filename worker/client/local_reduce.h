// LocalReduce: adds up the pushes of a machine's workers, so that one of them pushes for all.
//
// Kind:   TakeGroup and LeaveStep belong to the session's thread, the rest to the application's.
// Fails:  never: what it cannot do in time is released, and each worker pushes for itself.
// Why:    the shards understand a node of the tree whoever pushes it, so nothing depends on it but the bytes that
//         travel. How workers reach each other is not the client's business.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "worker/client/slot_sums.h"
#include "worker/session/session_loop.h"

namespace capstan::client {

class LocalReduce {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  // To the session's thread; from any thread.
  using SendCommand = std::function<void(Command&&)>;

  struct Round {
    std::uint64_t round = 0;  // as in PushCommand
    Generation generation;
    Step step;
    SlotIndex slot_count = 0;
    float loss_scale = 1.0F;
    std::vector<SlotSums::Part> parts;  // what this worker would push; leaves are encoded as their blocks are
  };

  virtual ~LocalReduce() = default;

  // Once, before all else. `catalog` outlives it.
  virtual void Begin(const Catalog& catalog, Encoding encoding, SendCommand send) = 0;
  // Nothing is sent any more when it returns. Before `send` becomes void.
  virtual void Stop() = 0;

  virtual void TakeGroup(const Session::LocalGroup& group) = 0;
  // Others need not wait for what this worker brings to the step, should it not have brought it by now.
  virtual void LeaveStep(const Session::StepLeft& left) = 0;

  // The last slot of a round has begun. How its parts are to be pushed.
  virtual PushWay BeginRound(Round round) = 0;
  // All parts of this block are final, and stay as they are.
  virtual void BlockReady(BlockIndex block) = 0;
  // Whether this worker has pushed what it has to push for others; waits for it until the deadline.
  virtual bool Done(Deadline deadline) = 0;
  // No further block of the round becomes ready.
  virtual void GiveUpRound() = 0;

  // Of gradients: those that were added up, and what was sent to the other workers for it.
  struct Counters {
    std::uint64_t reduced_bytes = 0, bytes_out = 0;
    std::uint64_t groups_formed = 0, device_groups_formed = 0;  // the latter among the former
  };
  virtual Counters counters() const = 0;
};

}  // namespace capstan::client
