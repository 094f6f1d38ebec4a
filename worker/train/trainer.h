// Trainer: the step loop of a worker: asks for work, computes the assigned slots, passes their gradients to the client.
//
// Kind:   owned by one thread, which computes; the Client's thread moves bytes meanwhile.
// Fails:  with the Client's status, such as kRefused or kUnreachable, or the model's.
// Why:    the trainer keeps nothing between rounds that affects a gradient. A gradient depends only on the weights and
//         (step, slot).
#pragma once

#include <functional>
#include <memory>

#include <capstan/client.h>

#include "monitoring/metrics.h"
#include "monitoring/trace.h"
#include "worker/train/slot_computer.h"

namespace capstan::train {

// Destinations for trace spans; null: not traced.
struct TrainerLanes {
  monitoring::TraceLane* compute = nullptr;  // the trainer's thread
  monitoring::TraceLane* pushes = nullptr;   // from a round's first gradient until all of them are staged
};

class Trainer {
 public:
  // All references must outlive this object. `stop_requested` is polled between rounds and during waits.
  Trainer(Client& client, SlotComputer& computer, std::shared_ptr<monitoring::WorkerMetrics> metrics,
          std::function<bool()> stop_requested, TrainerLanes lanes = {});

  // Runs until the job is done or has failed, or a stop was requested.
  Status Run();

 private:
  Result<std::optional<Work>> WaitForWork();
  Status RunRound(const Work& work);
  Status RunSlot(const Work& work, SlotIndex slot);
  void CountSlot(std::size_t samples);
  void CountWait();  // adds the time spent waiting for weights to the metrics
  void TracePushes();

  Client& client_;
  SlotComputer& computer_;
  std::shared_ptr<monitoring::WorkerMetrics> metrics_;
  std::function<bool()> stop_requested_;
  const TrainerLanes lanes_;
  std::chrono::steady_clock::time_point first_push_{};  // time of this round's first gradient; zero: none yet
  std::uint64_t step_ = 0, round_ = 0;
  std::chrono::steady_clock::duration encoded_{};  // time in GradientReady and GradientReadyFrom, not counted yet
  std::chrono::steady_clock::duration waited_{};   // waiting time for weights that CountWait has not counted yet
};

}  // namespace capstan::train
