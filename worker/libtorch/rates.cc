#include "worker/libtorch/rates.h"

#include <torch/optim/optimizer.h>
#include <torch/optim/schedulers/lr_scheduler.h>

#include <cstddef>
#include <string>
#include <utility>

#include "worker/libtorch/optimizer_rules.h"
#include "worker/libtorch/torch_call.h"

namespace capstan::libtorch {

namespace {

std::vector<double> RatesOf(const ::torch::optim::Optimizer& optimizer) {
  std::vector<double> rates;
  for (const auto& group : optimizer.param_groups()) rates.push_back(group.options().get_lr());
  return rates;
}

void SetRates(::torch::optim::Optimizer& optimizer, const std::vector<double>& rates) {
  for (std::size_t group = 0; group < rates.size(); ++group) {
    optimizer.param_groups()[group].options().set_lr(rates[group]);
  }
}

// Returns "" or a description of the first difference.
std::string Difference(const std::vector<HyperParameters>& now, const std::vector<HyperParameters>& wanted) {
  if (now.size() != wanted.size()) {
    return "the optimizer has " + std::to_string(now.size()) + " groups, and had " + std::to_string(wanted.size());
  }
  for (std::size_t group = 0; group < now.size(); ++group) {
    if (now[group] == wanted[group]) continue;
    return "group " + std::to_string(group) + " has " + ToText(now[group]) + ", and had " + ToText(wanted[group]);
  }
  return "";
}

}  // namespace

Result<Rates> Rates::Create(::torch::optim::Optimizer& optimizer, const PrepareOptions& options) {
  if (options.schedule && options.scheduler != nullptr) {
    return Invalid(
        "PrepareOptions has a schedule and a scheduler, which would both set the learning rate: leave one out");
  }
  if (options.scheduler_every == 0) {
    return Invalid(
        "PrepareOptions::scheduler_every is 0: it is the number of steps between two steps of the scheduler, "
        "at least 1");
  }
  return Rates(optimizer, options);
}

Rates::Rates(::torch::optim::Optimizer& optimizer, const PrepareOptions& options)
    : optimizer_(&optimizer),
      schedule_(options.schedule),
      scheduler_(options.scheduler),
      scheduler_every_(options.scheduler_every),
      first_(HyperParametersOf(optimizer)),
      now_(first_),
      rates_{RatesOf(optimizer)} {}

Result<std::vector<HyperParameters>> Rates::GoTo(std::uint64_t step) {
  CAPSTAN_RETURN_IF_ERROR(CheckUnchanged(step));
  step_ = step;
  if (schedule_) {
    CAPSTAN_RETURN_IF_ERROR(CallTorch("PrepareOptions::schedule of step " + std::to_string(step), [&] {
      schedule_(step);
      return Status();
    }));
  } else if (scheduler_ != nullptr) {
    CAPSTAN_RETURN_IF_ERROR(CallTorch("PrepareOptions::scheduler of step " + std::to_string(step), [&] {
      StepScheduler(step);
      return Status();
    }));
  }
  now_ = HyperParametersOf(*optimizer_);
  return now_;
}

// libtorch's schedulers compute the next rates from the present ones and a counter, and cannot be set back. So the
// rates that they gave are kept.
void Rates::StepScheduler(std::uint64_t step) {
  const std::uint64_t count = step / scheduler_every_;
  while (rates_.size() <= count) {
    SetRates(*optimizer_, rates_.back());
    scheduler_->step();
    rates_.push_back(RatesOf(*optimizer_));
  }
  SetRates(*optimizer_, rates_[count]);
}

Status Rates::CheckUnchanged(std::uint64_t step) const {
  const std::string difference = Difference(HyperParametersOf(*optimizer_), now_);
  if (difference.empty()) return {};
  return Invalid("the optimizer's numbers were changed before step " + std::to_string(step) + ": " + difference +
                 ". A process that is started again would not repeat the change: give Prepare() what makes it, "
                 "PrepareOptions::scheduler, or PrepareOptions::schedule = [&](std::uint64_t step) { ... }");
}

Status Rates::Check(const std::string& before) const {
  const std::string difference = Difference(HyperParametersOf(*optimizer_), now_);
  if (difference.empty()) return {};
  return Invalid("the optimizer's numbers were changed within step " + std::to_string(step_) + ", before " + before +
                 ": " + difference +
                 ". Each step has one set of numbers: give Prepare() what changes them, "
                 "PrepareOptions::scheduler, or PrepareOptions::schedule = [&](std::uint64_t step) { ... }");
}

}  // namespace capstan::libtorch
