#include "server/coordinator/tensorboard_log.h"

#include <algorithm>
#include <utility>

#include "server/coordinator/event_record.h"

namespace capstan::server {
namespace {

void AddTraining(const StepRecord& record, std::vector<Scalar>* scalars) {
  scalars->push_back({"train/loss", record.loss});
  scalars->push_back({"train/learning_rate", record.learning_rate});
  scalars->push_back({"train/gradient_norm", record.gradient_norm});
  if (record.seconds > 0) {
    scalars->push_back({"train/samples_per_second", static_cast<double>(record.samples) / record.seconds});
  }
  if (record.loss_scale != 1.0) scalars->push_back({"train/loss_scale", record.loss_scale});
  for (const auto& [name, value] : record.metrics) scalars->push_back({"metrics/" + name, value});
}

void AddValidation(const StepRecord& record, std::vector<Scalar>* scalars) {
  if (record.validation_loss) scalars->push_back({"validation/loss", *record.validation_loss});
  if (record.validation_accuracy) scalars->push_back({"validation/accuracy", *record.validation_accuracy});
}

}  // namespace

TensorBoardLog::TensorBoardLog(std::string folder, std::uint64_t steps)
    : folder_(std::move(folder)),
      steps_(steps),
      stride_(std::max<std::uint64_t>((steps + kPointsMax - 1) / kPointsMax, 1)) {}

Status TensorBoardLog::Append(const std::vector<StepRecord>& records, double seconds) {
  std::string bytes;
  for (const StepRecord& record : records) bytes += RecordsOf(record, seconds);
  if (bytes.empty()) return {};
  if (!file_) {
    CAPSTAN_ASSIGN_OR_RETURN(EventFile file, EventFile::Create(folder_, static_cast<std::uint64_t>(seconds)));
    file_.emplace(std::move(file));
    // The steps from here on may have been done before this start.
    bytes = RecordOf(VersionEvent(seconds)) + RecordOf(StartEvent(seconds, records.front().step.value)) + bytes;
  }
  Status status = file_->Append(bytes);
  if (!status.ok() && file_->is_empty()) file_.reset();
  return status;
}

std::string TensorBoardLog::RecordsOf(const StepRecord& record, double seconds) {
  const std::uint64_t step = record.step.value;
  std::string bytes;
  if (step < next_step_) {  // the job went back to a snapshot, and does these steps again
    bytes = RecordOf(StartEvent(seconds, step));
    next_point_ = next_validation_ = step;
  }
  next_step_ = step + 1;
  const bool is_last = next_step_ == steps_, has_validation = record.validation_loss || record.validation_accuracy;
  std::vector<Scalar> scalars;
  if (step >= next_point_ || is_last) {
    AddTraining(record, &scalars);
    next_point_ = step + stride_;
  }
  if (has_validation && (step >= next_validation_ || is_last)) {
    AddValidation(record, &scalars);
    next_validation_ = step + stride_;
  }
  if (!scalars.empty()) bytes += RecordOf(ScalarsEvent(seconds, step, scalars));
  return bytes;
}

}  // namespace capstan::server
