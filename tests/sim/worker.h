// SimWorker: a worker process of a simulated cluster: the real Session, and an application that computes slots and
// pushes gradients as the session's events ask.
//
// Kind:   owned by the cluster.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "tests/sim/cluster.h"
#include "tests/sim/external_program.h"
#include "tests/sim/machine_worker.h"
#include "tests/sim/mutants.h"
#include "tests/sim/replica_worker.h"
#include "worker/client/slot_sums.h"
#include "worker/session/session.h"

namespace capstan::sim {

class SimWorker {
 public:
  struct Settings {
    std::uint64_t node = 0;  // its address, different for each start
    std::string name;
    const ClusterOptions* options = nullptr;
    const std::vector<TensorSpec>* tensors = nullptr;
    const Catalog* catalog = nullptr;
    BufferPool* gradients = nullptr;
    RandomStream* random = nullptr;
    PeerId coordinator;
    Flaw flaw = Flaw::kNone;
    Encoding encoding = Encoding::kFp32;
    std::function<void(Version, BlockIndex, const Slice&)> handed_over;  // called for each received block
    const JobConfig* config = nullptr;
    ReplicaWorker::Settings replica;  // for mode allreduce
    MachineWorker::Settings machine;
    ExternalProgram::Made made;  // if the optimizer stays in the program
  };
  explicit SimWorker(Settings settings);

  // Copies weights that arrive to where this worker computes with them, before their hash is checked, if its session
  // says that it may. Returns whether they were copied.
  bool CopyInPlace(PeerId from, const Message& message);
  void Handle(PeerId from, const Message& message, Instant now, Outbox* out);
  void Tick(Instant now, Outbox* out);
  void Leave(Outbox* out) { session_->Leave("moved on", out); }

  std::uint64_t node() const { return settings_.node; }
  const std::string& name() const { return settings_.name; }
  bool has_work() const { return replica_ ? !replica_->idle() : has_work_; }
  const session::RoundWork& work() const { return work_; }
  Generation generation() const { return session_->generation(); }
  bool exited() const { return exited_; }
  // What happened that must never happen; empty: nothing.
  const std::string& violation() const { return replica_ && violation_.empty() ? replica_->violation() : violation_; }
  std::string WaitingFor() const { return session_->WaitingFor(); }
  Instant paused_until{};
  Instant clock_offset{};  // added to its clock

 private:
  void Run(Instant now, Outbox* out);
  BufferRef FirstWeights() const;
  void OnEvent(session::Session::JobFile&, Instant now, Outbox* out);
  void OnEvent(session::Session::Joined&, Instant, Outbox*) {}
  void OnEvent(session::Session::BarrierWaits&, Instant, Outbox*) {}  // these workers use no barrier
  void OnEvent(session::Session::BarrierPassed&, Instant, Outbox*) {}
  void OnEvent(session::Session::GroupKnown& known, Instant, Outbox*) { replica_->TakeGroup(known); }
  void OnEvent(session::Session::MachineGrouping& group, Instant, Outbox*) { machine_->TakeGroup(group); }
  void OnEvent(session::Session::StepDone& left, Instant, Outbox*) {
    if (machine_) machine_->TakeStepDone(left);
  }
  void OnEvent(session::Session::WorkReady& ready, Instant now, Outbox*);
  void OnEvent(session::Session::WeightsArrived& arrived, Instant, Outbox*);
  void OnEvent(session::Session::WorkVoid& ended, Instant, Outbox*);
  void OnEvent(session::Session::Finished&, Instant, Outbox*) {
    exited_ = true;
    violation_ = "a worker was told to end before the job was concluded";
  }
  void OnEvent(session::Session::Failed& failed, Instant, Outbox*);
  void Compute(Instant now, Outbox* out);
  void ComputeExternal(Instant now, Outbox* out);
  void ComputeSlot(std::uint32_t data, float* gradient) const;
  std::uint32_t DataOf(SlotIndex slot, std::size_t index) const;
  void SumFromTheLast(const std::vector<BufferRef>& gradients,
                      const std::vector<client::SlotSums::PartialSum>& parts) const;

  const Settings settings_;
  std::unique_ptr<session::Session> session_;
  std::unique_ptr<ReplicaWorker> replica_;     // null in other modes
  std::unique_ptr<MachineWorker> machine_;     // null: it pushes for itself
  std::unique_ptr<ExternalProgram> external_;  // null: the servers or the workers run the optimizer
  std::vector<float> weights_;
  bool has_work_ = false;
  session::RoundWork work_;
  float loss_scale_ = 1.0F;
  std::string program_state_;  // the state of its version
  std::vector<bool> arrived_;
  Instant busy_until_{};
  bool idle_call_due_ = true;
  bool exited_ = false;
  std::string violation_;
};

}  // namespace capstan::sim
