// Trainer: the step loop of a worker: asks for work, computes the slots it is given, hands their gradients over.
//
// Kind:   owned by one thread, which computes; the Client's thread moves bytes meanwhile.
// Fails:  with the Client's status: refused, job failed, no coordinator.
// Why:    it keeps nothing between rounds. What it computes follows from the weights and from (step, slot).
#pragma once

#include <functional>
#include <memory>

#include <capstan/client.h>

#include "monitoring/metrics.h"
#include "monitoring/trace.h"
#include "worker/train/slot_computer.h"

namespace capstan::train {

// Where its spans go; null where nobody wants them.
struct TrainerLanes {
  monitoring::TraceLane* compute = nullptr;  // the trainer's thread
  monitoring::TraceLane* pushes = nullptr;   // from a round's first gradient until all of them are staged
};

class Trainer {
 public:
  // All outlive it. `stop_requested` is asked between slots and while waiting.
  Trainer(Client& client, SlotComputer& computer, std::shared_ptr<monitoring::WorkerMetrics> metrics,
          std::function<bool()> stop_requested, TrainerLanes lanes = {});

  // Until the job is done, or has failed, or a stop was requested.
  Status Run();

 private:
  Result<std::optional<Work>> WaitForWork();
  Status RunRound(const Work& work);
  Status RunSlot(const Work& work, SlotIndex slot);
  void CountSlot(std::size_t samples);
  void CountWait();  // for weights, since the last call
  void TracePushes();

  Client& client_;
  SlotComputer& computer_;
  std::shared_ptr<monitoring::WorkerMetrics> metrics_;
  std::function<bool()> stop_requested_;
  const TrainerLanes lanes_;
  std::chrono::steady_clock::time_point first_push_{};  // of this round; none before its first gradient
  std::uint64_t step_ = 0, round_ = 0;
  std::chrono::steady_clock::duration waited_{};  // for weights, and not counted yet
};

}  // namespace capstan::train
