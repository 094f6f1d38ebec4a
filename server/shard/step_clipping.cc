#include "server/shard/step_clipping.h"

#include "common/wire/messages/end_slot.h"

namespace capstan::server {

Status StepClipping::Check(const EndSlot& end, Mode mode) {
  const Clipping& clipping = end.report.clipping;
  if (mode != Mode::kSync && clipping != Clipping()) {
    return Invalid("slot " + std::to_string(end.report.slot) +
                   " brings a limit for clipping, and only mode sync takes one from a program");
  }
  const Status status = CheckClipping(clipping);
  return status.ok() ? status : Invalid("slot " + std::to_string(end.report.slot) + ": " + status.message());
}

Status StepClipping::Compare(const EndSlot& end) const {
  if (!clipping_ || end.report.samples == 0 || end.report.clipping == *clipping_) return {};
  return Invalid("step " + std::to_string(end.step.value) + ": slot " + std::to_string(end.report.slot) +
                 " ends with the limits " + TextOf(end.report.clipping) + " for clipping, slot " +
                 std::to_string(slot_) + " ended with " + TextOf(*clipping_) +
                 "; every worker is to set those of a step from its number alone");
}

void StepClipping::Take(const EndSlot& end) {
  if (clipping_ || end.report.samples == 0) return;  // a slot without samples has no gradient to clip
  clipping_ = end.report.clipping;
  session_ = end.session;
  slot_ = end.report.slot;
}

}  // namespace capstan::server
