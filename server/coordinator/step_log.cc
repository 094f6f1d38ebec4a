#include "server/coordinator/step_log.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace capstan::server {

// Prints a step. The library writes a number in the fewest digits that read back as the same number, and a number that
// is not finite as null.
std::string StepLine(const StepRecord& record) {
  nlohmann::ordered_json line = {{"step", record.step.value},
                                 {"loss", record.loss},
                                 {"lr", record.learning_rate},
                                 {"grad_norm", record.gradient_norm},
                                 {"samples", record.samples},
                                 {"seconds", record.seconds},
                                 {"action", record.action == StepAction::kApply ? "apply" : "skip"},
                                 {"generation", record.generation.value}};
  if (record.loss_scale != 1.0) line["loss_scale"] = record.loss_scale;
  if (record.validation_loss) line["validation_loss"] = *record.validation_loss;
  if (record.validation_accuracy) line["validation_accuracy"] = *record.validation_accuracy;
  if (!record.metrics.empty()) line["metrics"] = record.metrics;
  if (record.metrics_left_out != 0) line["metrics_left_out"] = record.metrics_left_out;
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Result<StepLog> StepLog::Open(std::string path, LineFileLimits limits) {
  CAPSTAN_ASSIGN_OR_RETURN(LineFile file, LineFile::Open(std::move(path), 0600, limits));
  return StepLog(std::move(file));
}

Status StepLog::Append(const std::vector<StepRecord>& records) {
  std::string lines;
  for (const StepRecord& record : records) lines += StepLine(record) + "\n";
  return file_.Append(lines);
}

}  // namespace capstan::server
