// SlotVerdict: in modes without global steps, a worker's decision about each slot's push: whether it counts, how it is
// clipped, and the slot's loss scale.
//
// Kind:   owned by the application's thread. A job with global steps has none: there the coordinator's verdict on the
//         step decides for all slots.
// Why:    shards apply each push as it comes, so only its worker sees the whole gradient before.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "common/base/types.h"
#include "common/config/job/forward.h"
#include "common/config/job/job_section.h"
#include "common/data/catalog.h"
#include "common/data/loss_scale.h"

namespace capstan::client {

struct SlotVerdictOptions {
  double clip_norm = 0.0;  // 0: no clipping
  NonFinitePolicy on_nonfinite = NonFinitePolicy::kStop;
  bool scales = false;  // fp16: each slot keeps its own loss scale
};

class SlotVerdict {
 public:
  // Returns null if the job's mode has global steps.
  static std::unique_ptr<SlotVerdict> Create(const JobConfig& config);
  explicit SlotVerdict(const SlotVerdictOptions& options) : options_(options) {}

  // Whether no block may be sent before Decide has seen the whole gradient. If not, AllFinite on each block is enough.
  bool waits_for_all() const {
    return options_.clip_norm > 0 || options_.on_nonfinite == NonFinitePolicy::kSkip || options_.scales;
  }
  // The slot's own loss scale, if it has one.
  std::optional<float> LossScaleOf(SlotIndex slot);

  void BeginSlot() { left_out_ = false; }
  // Clips the gradient, a flat array in the catalog's order, by the norm of all its parameters. Leaves the gradient out
  // if it is not finite. Returns false if the job has to stop.
  bool Decide(SlotIndex slot, const Catalog& catalog, std::span<float> gradient, float loss_scale, double loss_sum);
  // Whether the current slot's gradient is not finite. If so, its push has no samples and changes no weight.
  bool left_out() const { return left_out_; }

 private:
  const SlotVerdictOptions options_;
  std::map<SlotIndex, LossScale> scale_of_slot_;
  bool left_out_ = false;
};

}  // namespace capstan::client
