#include "common/job_config_check.h"

namespace capstan::job_config {

namespace {

using std::to_string;

std::optional<Problem> FindModelProblem(const JobConfig& c) {
  const bool is_gpt = c.model.kind == ModelKind::kGpt;
  if (is_gpt && c.model.width % c.model.heads != 0) {
    return Problem{"model", "heads",
                   "heads = " + to_string(c.model.heads) + " does not divide width = " + to_string(c.model.width) +
                       "; each head gets width / heads numbers"};
  }
  const bool has_tokens = c.data.kind == DataKind::kText;
  const bool has_features = c.data.kind == DataKind::kIdx || c.data.kind == DataKind::kCsv;
  if (is_gpt && has_features) {
    return Problem{"data", "kind", "model kind \"gpt\" reads tokens: data kind \"text\" or \"synthetic\""};
  }
  if (!is_gpt && has_tokens) {
    return Problem{"data", "kind",
                   "model kind \"mlp\" reads rows of numbers: data kind \"idx\", \"csv\" or \"synthetic\""};
  }
  if (c.data.kind != DataKind::kSynthetic && c.data.path.empty()) {
    return Problem{"data", "path", "path is empty; name the file or folder to train on"};
  }
  if (c.data.kind == DataKind::kIdx && c.data.labels.empty()) {
    return Problem{"data", "labels", "labels is empty; name the file of labels that belongs to path"};
  }
  if (c.job.eval_every > 0 && c.data.validation == 0) {
    return Problem{"job", "eval_every",
                   "eval_every = " + to_string(c.job.eval_every) +
                       " needs held-out samples, and [data] validation is 0; set it to 0.1, or eval_every to 0"};
  }
  return std::nullopt;
}

std::optional<Problem> FindStepProblem(const JobConfig& c) {
  if (c.job.slots > c.job.global_batch) {
    return Problem{
        "job", "global_batch",
        "global_batch = " + to_string(c.job.global_batch) + " is less than the " + to_string(c.job.slots) +
            " slots (slots, or else workers), and a slot would never have a sample; raise it or lower slots"};
  }
  if (c.schedule.warmup_steps > c.job.steps) {
    return Problem{"schedule", "warmup_steps",
                   "warmup_steps = " + to_string(c.schedule.warmup_steps) + " is more than the job's " +
                       to_string(c.job.steps) + " steps"};
  }
  if (c.schedule.kind != ScheduleKind::kConstant && c.schedule.min_lr > c.optimizer.lr) {
    return Problem{"schedule", "min_lr", "min_lr is above [optimizer] lr, and the schedule goes down"};
  }
  if (c.optimizer.nesterov && c.optimizer.momentum == 0) {
    return Problem{"optimizer", "nesterov", "nesterov needs a momentum above 0"};
  }
  return std::nullopt;
}

std::optional<Problem> FindClusterProblem(const JobConfig& c) {
  if (c.cluster.min_workers > c.cluster.workers) {
    return Problem{"cluster", "min_workers",
                   "min_workers = " + to_string(c.cluster.min_workers) +
                       " is more than workers = " + to_string(c.cluster.workers)};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Problem> FindProblem(const JobConfig& config) {
  if (auto problem = FindModelProblem(config)) return problem;
  if (auto problem = FindStepProblem(config)) return problem;
  return FindClusterProblem(config);
}

}  // namespace capstan::job_config
