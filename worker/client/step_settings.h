// StepSettings: what the training program sets for the update of its steps: hyper-parameters, limits for clipping.
//
// Kind:   owned by the thread that calls the client.
// Fails:  kInvalid: values that the job or the moment of the call does not allow; the message begins with the call's
//         name.
// Why:    a shard checks the same values, but its refusal would come later than the call at fault.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/config/job/mode.h"
#include "common/config/job/optimizer_section.h"
#include "common/data/clipping.h"
#include "common/data/hyper_parameters.h"

namespace capstan::client {

class StepSettings {
 public:
  // Call when the job is known. `group_count`: that of the catalog.
  void Begin(Mode mode, const OptimizerSection& optimizer, std::uint32_t group_count);
  // Call when a round ends: the program may set hyper-parameters again.
  void EndRound() { settled_ = false; }

  // Checks a new set of hyper-parameters, for SetHyperParameters.
  Status TakeHyperParameters(const std::vector<HyperParameters>& groups);
  // Call when gradients of a round are final. From then on the hyper-parameters must not change in this round, because
  // all its pushes carry them.
  Status Settle(const char* call);

  // Takes new limits for clipping, for the call of this name.
  Status TakeClipping(const char* call, const Clipping& clipping);
  // The limits that go with each slot that ends.
  const Clipping& clipping() const { return clipping_; }

 private:
  bool begun_ = false;
  Mode mode_ = Mode::kSync;
  OptimizerSection optimizer_;
  std::uint32_t group_count_ = 0;
  bool has_hyper_parameters_ = false;
  bool settled_ = false;  // a gradient of the round is final
  Clipping clipping_;
};

}  // namespace capstan::client
