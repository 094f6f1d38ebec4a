// GatedMesh: a mesh in which a call continues only when all expected ranks have entered it.
//
// Kind: shared, as the mesh inside. All ranks of a mesh have one Gate.
// Why:  if a slow rank enters a call only after another rank's deadline, the error names the slow rank as missing too.
//       Without a gate the outcome of a test would depend on the scheduler.
#pragma once

#include "common/base/mailbox.h"
#include "tests/worker/collective/groups.h"

namespace capstan::collective {

class Gate {
 public:
  // Makes the next call wait until `ranks` ranks have entered it. 0: calls do not wait.
  void Await(int ranks) { ranks_ = ranks; }
  void Enter() {
    if (ranks_ == 0) return;
    entered_.Change([](int& entered) { ++entered; });
    entered_.AwaitUntil(In(kPatience), [this](int entered) { return entered >= ranks_; });
  }

 private:
  int ranks_ = 0;  // set between calls
  Guarded<int> entered_;
};

class GatedMesh : public Mesh {
 public:
  GatedMesh(std::shared_ptr<Mesh> mesh, Gate* gate) : mesh_(std::move(mesh)), gate_(*gate) {}

  int rank() const override { return mesh_->rank(); }
  int size() const override { return mesh_->size(); }
  std::unique_ptr<Transfer> CreateTransfer() override { return mesh_->CreateTransfer(); }
  std::uint64_t Enter(Deadline deadline) override {
    const std::uint64_t number = mesh_->Enter(deadline);
    gate_.Enter();
    return number;
  }
  void Leave() override { mesh_->Leave(); }
  void Abort() override { mesh_->Abort(); }
  Status failure() override { return mesh_->failure(); }

 private:
  const std::shared_ptr<Mesh> mesh_;
  Gate& gate_;
};

}  // namespace capstan::collective
