#include "worker/client/describe.h"

#include <utility>

#include "common/config/job/limits_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/config/job_config.h"
#include "common/wire/messages/slot_report.h"

namespace capstan::client {

std::vector<TensorSpec> SpecsOf(const std::vector<TensorDeclaration>& tensors, const OptimizerSection& optimizer) {
  std::vector<TensorSpec> specs;
  specs.reserve(tensors.size());
  for (const TensorDeclaration& tensor : tensors) {
    specs.push_back({tensor.name,
                     tensor.shape,
                     {static_cast<InitKind>(tensor.initial), tensor.scale},
                     tensor.weight_decay && DecayApplies(optimizer, tensor.name),
                     tensor.group,
                     tensor.statistic ? TensorKind::kStatistic : TensorKind::kParameter});
  }
  return specs;
}

session::Declaration DeclarationOf(const WorkerDescription& description, const JobConfig& config,
                                   std::vector<TensorSpec> catalog) {
  session::Declaration declaration;
  declaration.catalog = std::move(catalog);
  declaration.numeric_class = description.numeric_class;
  declaration.numeric_fingerprint = description.numeric_fingerprint;
  declaration.data_fingerprint = description.data_fingerprint;
  declaration.mode = config.mode();
  declaration.encoding = EncodingOf(config);
  declaration.steps = config.steps();
  if (config.optimizer.kind == OptimizerKind::kExternal) declaration.state_arrays = config.optimizer.states;
  if (config.limits.stall > 0) {
    declaration.silence_limit = std::chrono::duration_cast<Instant>(std::chrono::duration<double>(config.limits.stall));
  }
  return declaration;
}

SlotReport ReportOf(SlotIndex slot, std::uint64_t samples, const SlotResult& result) {
  SlotReport report;
  report.slot = slot;
  report.samples = samples;
  report.loss_sum = result.loss_sum;
  report.predictions = result.predictions;
  report.validation_loss_sum = result.validation_loss_sum;
  report.validation_predictions = result.validation_predictions;
  report.validation_correct = result.validation_correct;
  report.metrics = result.metrics;
  return report;
}

}  // namespace capstan::client
