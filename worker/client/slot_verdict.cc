#include "worker/client/slot_verdict.h"

#include <cmath>

#include "common/config/job/optimizer_section.h"
#include "common/config/job/worker_section.h"
#include "common/config/job_config.h"
#include "worker/client/gradient_check.h"

namespace capstan::client {

std::unique_ptr<SlotVerdict> SlotVerdict::Create(const JobConfig& config) {
  if (HasGlobalSteps(config.mode())) return nullptr;
  return std::make_unique<SlotVerdict>(SlotVerdictOptions{config.optimizer.clip_norm, config.job.on_nonfinite,
                                                          config.worker.precision == Precision::kFp16});
}

std::optional<float> SlotVerdict::LossScaleOf(SlotIndex slot) {
  return options_.scales ? std::optional(scale_of_slot_[slot].scale) : std::nullopt;
}

bool SlotVerdict::Decide(SlotIndex slot, const Catalog& catalog, std::span<float> gradient, float loss_scale,
                         double loss_sum) {
  const auto part = [&](const Block& block) { return gradient.subspan(block.flat_offset, block.count); };
  double squares = 0.0;
  bool finite = true;
  for (const Block& block : catalog.blocks()) {
    const double squares_here = SumOfSquares(part(block));
    finite = finite && std::isfinite(squares_here);
    if (block.kind == TensorKind::kParameter) squares += squares_here;
  }
  bool can_shrink = false;
  if (options_.scales) {
    LossScale& scale = scale_of_slot_[slot];
    can_shrink = scale.scale > kLeastLossScale && std::isfinite(loss_sum);  // the scale does not affect the loss
    scale.Count(finite);
  }
  if (!finite) {
    left_out_ = true;
    return options_.on_nonfinite == NonFinitePolicy::kSkip || can_shrink;
  }
  const double norm = std::sqrt(squares) / static_cast<double>(loss_scale);
  const auto clip = static_cast<float>(options_.clip_norm / (norm + 1e-6));
  if (options_.clip_norm == 0 || clip >= 1.0F) return true;
  for (const Block& block : catalog.blocks()) {
    if (block.kind != TensorKind::kParameter) continue;
    for (float& value : part(block)) value *= clip;
  }
  return true;
}

}  // namespace capstan::client
