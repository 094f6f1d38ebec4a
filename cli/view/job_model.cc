#include "cli/view/job_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>

#include "cli/run/json_fields.h"

namespace capstan::cli {
namespace {

using Json = nlohmann::json;

std::optional<double> FiniteIn(const Json& object, const char* key) {
  const std::optional<double> number = NumberIn(object, key);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

// Returns the time of day of seconds since 1970.
std::string TimeOfDay(double seconds) {
  if (!(seconds >= 0 && seconds < 1e12)) return "";
  const auto time = static_cast<std::time_t>(seconds);
  tm day{};
  localtime_r(&time, &day);
  std::array<char, 16> text{};
  std::strftime(text.data(), text.size(), "%H:%M:%S", &day);
  return text.data();
}

JobFigures FiguresOf(const Json& status) {
  JobFigures figures;
  figures.step = CountIn(status, "step");
  figures.steps = CountIn(status, "steps");
  figures.loss = FiniteIn(status, "loss");
  figures.validation_loss = FiniteIn(status, "validation_loss");
  figures.learning_rate = FiniteIn(status, "learning_rate");
  figures.grad_norm = FiniteIn(status, "grad_norm");
  figures.samples_per_second = FiniteIn(status, "samples_per_second");
  figures.step_seconds = FiniteIn(status, "step_seconds");
  figures.seconds_left = FiniteIn(status, "seconds_left");
  return figures;
}

template <class Row, class Make>
std::vector<Row> RowsOf(const Json& list, Make make) {
  std::vector<Row> rows;
  for (const Json& entry : list) {
    if (rows.size() == JobModel::kRowsMax) break;
    if (entry.is_object()) rows.push_back(make(entry));
  }
  return rows;
}

std::string Percent(double share) { return std::to_string(std::lround(100 * std::clamp(share, 0.0, 1.0))) + " %"; }

// Returns the two largest shares of a worker's time, such as "80 % compute, 15 % exchange"; empty if none is known.
std::string TimeOf(const Json& worker) {
  const auto time = worker.find("time");
  if (time == worker.end() || !time->is_object()) return "";
  std::vector<std::pair<double, std::string>> shares;
  for (const char* key : {"compute", "input", "exchange", "commit"}) {
    if (const auto share = FiniteIn(*time, key)) shares.emplace_back(*share, key);
  }
  std::sort(shares.rbegin(), shares.rend());
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(shares.size(), 2); ++i)
    text += (text.empty() ? "" : ", ") + Percent(shares[i].first) + " " + shares[i].second;
  return text;
}

std::optional<JobModel::Snapshot> NewestOf(const Json& snapshots) {
  std::optional<JobModel::Snapshot> newest;
  for (const Json& entry : snapshots) {
    const std::optional<std::uint64_t> version = CountIn(entry, "version");
    if (version && (!newest || *version >= newest->version))
      newest = {*version, FiniteIn(entry, "age_seconds").value_or(0)};
  }
  return newest;
}

}  // namespace

void TakeStatus(const Json& status, JobModel* model) {
  model->job = TextIn(status, "job");
  model->state = TextIn(status, "state");
  model->waiting = TextIn(status, "waiting");
  model->failure = TextIn(status, "failure");
  const auto bound = status.is_object() ? status.find("bound_by") : status.end();
  model->bound_by = bound == status.end() ? "" : TextIn(*bound, "sentence");
  model->figures = FiguresOf(status);
  model->workers = RowsOf<JobModel::Worker>(ListIn(status, "workers"), [](const Json& worker) {
    return JobModel::Worker{
        TextIn(worker, "worker"), TextIn(worker, "state"), TextIn(worker, "slots"), TextIn(worker, "last_heard"),
        CountIn(worker, "step"),  FiniteIn(worker, "lag"), TimeOf(worker)};
  });
  model->shards = RowsOf<JobModel::Shard>(ListIn(status, "shards"), [](const Json& shard) {
    return JobModel::Shard{TextIn(shard, "shard"), TextIn(shard, "state"), TextIn(shard, "address"),
                           FiniteIn(shard, "busy")};
  });
  model->aside = RowsOf<std::string>(ListIn(status, "set_aside"), [](const Json& entry) {
    return TextIn(entry, "worker") + " is set aside: " + TextIn(entry, "why");
  });
  model->worker_count = std::max<std::uint64_t>(CountIn(status, "worker_count").value_or(0), model->workers.size());
  model->shard_count = std::max<std::uint64_t>(CountIn(status, "shard_count").value_or(0), model->shards.size());
  model->snapshot = NewestOf(ListIn(status, "snapshots"));
}

void TakeHistory(const Json& history, JobModel* model) {
  model->loss = {};
  for (const Json& point : ListIn(history, "points")) {
    const std::optional<std::uint64_t> step = CountIn(point, "step");
    const std::optional<double> loss = NumberIn(point, "loss");
    if (step && loss) model->loss.Add(*step, *loss);
  }
  const Json& events = ListIn(history, "events");
  model->events.clear();
  for (std::size_t i = events.size() - std::min(events.size(), JobModel::kRowsMax); i < events.size(); ++i) {
    const std::optional<double> seconds = NumberIn(events[i], "time");
    model->events.push_back({seconds ? TimeOfDay(*seconds) : TextIn(events[i], "time"), CountIn(events[i], "step"),
                             TextIn(events[i], "text")});
  }
}

void ForgetStatus(JobModel* model) {
  const std::string job = std::move(model->job);
  TakeStatus({}, model);
  model->job = job;
}

}  // namespace capstan::cli
