#include "worker/session/mode_parts.h"

#include "worker/session/clocked_plan.h"
#include "worker/session/external_plan.h"
#include "worker/session/sync_plan.h"

namespace capstan::session {

namespace {

template <class Credit>
std::unique_ptr<PushCredit> MakeCredit(std::uint32_t initial) {
  return std::make_unique<Credit>(initial);
}

}  // namespace

ModeParts MakeModeParts(Mode mode, std::uint64_t steps, std::optional<std::uint32_t> state_arrays) {
  if (state_arrays) {
    return {std::make_unique<ExternalPlan>(1 + *state_arrays), std::make_unique<MachineGroup>(),
            MakeCredit<WindowCredit>};
  }
  switch (mode) {
    case Mode::kAllReduce:
      return {std::make_unique<ReplicatedPlan>(), std::make_unique<AllReduceGroup>(), MakeCredit<WindowCredit>};
    case Mode::kAsync:
    case Mode::kBounded:
      return {std::make_unique<ClockedPlan>(SequenceNumber{steps}), std::make_unique<MachineGroup>(),
              MakeCredit<CountCredit>};
    case Mode::kSync: break;
  }
  return {std::make_unique<SyncPlan>(), std::make_unique<MachineGroup>(), MakeCredit<WindowCredit>};
}

}  // namespace capstan::session
