#include "server/coordinator/step_log.h"

#include <nlohmann/json.hpp>
#include <limits>
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
  if (record.time != 0.0) line["time"] = record.time;
  if (record.loss_scale != 1.0) line["loss_scale"] = record.loss_scale;
  if (record.validation_loss) line["validation_loss"] = *record.validation_loss;
  if (record.validation_accuracy) line["validation_accuracy"] = *record.validation_accuracy;
  if (!record.metrics.empty()) line["metrics"] = record.metrics;
  if (record.metrics_left_out != 0) line["metrics_left_out"] = record.metrics_left_out;
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::optional<StepRecord> ParseStepLine(std::string_view line) {
  const auto json = nlohmann::json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_unsigned()) return std::nullopt;
  const auto whole = [&](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
  };
  const auto number = [&](const char* key, double other) {
    const auto found = json.find(key);
    return found != json.end() && found->is_number() ? found->get<double>() : other;
  };
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  StepRecord record;
  record.generation = Generation{whole("generation")};
  record.step = Step{whole("step")};
  record.loss = number("loss", kNone);
  record.learning_rate = number("lr", kNone);
  record.gradient_norm = number("grad_norm", kNone);
  record.samples = whole("samples");
  record.seconds = number("seconds", 0.0);
  record.time = number("time", 0.0);
  if (json.contains("validation_loss")) record.validation_loss = number("validation_loss", kNone);
  if (json.contains("validation_accuracy")) record.validation_accuracy = number("validation_accuracy", kNone);
  return record;
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
