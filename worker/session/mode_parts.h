// ModeParts: the parts of a session that depend on the job's mode.
//
// Kind:   made once, by Declare.
#pragma once

#include <memory>
#include <optional>

#include "common/config/job/mode.h"
#include "worker/session/push_credit.h"
#include "worker/session/work_plan.h"
#include "worker/session/worker_group.h"

namespace capstan::session {

struct ModeParts {
  std::unique_ptr<WorkPlan> plan;
  std::unique_ptr<WorkerGroup> group;
  std::unique_ptr<PushCredit> (*make_credit)(std::uint32_t initial) = nullptr;
};

// `steps`: the sequence number of every slot's last push; used in modes without global steps.
// `state_arrays`: as in Declaration.
ModeParts MakeModeParts(Mode mode, std::uint64_t steps, std::optional<std::uint32_t> state_arrays = std::nullopt);

}  // namespace capstan::session
