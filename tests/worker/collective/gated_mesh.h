// GatedMesh: a mesh whose ranks continue a call once all expected ranks have entered it.
//
// Kind: shared, as the mesh inside. One Gate for all ranks of a mesh.
// Why:  a deadline that passes before a rank has entered names that rank too, so a test would depend on the scheduler.
#pragma once

#include "common/base/mailbox.h"
#include "tests/worker/collective/groups.h"

namespace capstan::collective {

class Gate {
 public:
  // From now on `ranks` ranks continue calls together. 0: calls continue at once.
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
  void OpenGroup(GroupIndex group, std::vector<int> members) override { mesh_->OpenGroup(group, std::move(members)); }
  std::unique_ptr<Transfer> CreateTransfer(GroupIndex group) override { return mesh_->CreateTransfer(group); }
  std::uint64_t Enter(GroupIndex group, Deadline deadline) override {
    const std::uint64_t number = mesh_->Enter(group, deadline);
    gate_.Enter();
    return number;
  }
  void Leave(GroupIndex group) override { mesh_->Leave(group); }
  void Abort() override { mesh_->Abort(); }
  Status failure() override { return mesh_->failure(); }

 private:
  const std::shared_ptr<Mesh> mesh_;
  Gate& gate_;
};

}  // namespace capstan::collective
