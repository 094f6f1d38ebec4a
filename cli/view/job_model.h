// JobModel: the facts of a job for its picture: status, curve, workers and shards, last events.
//
// Kind:   a value. TakeStatus and TakeHistory fill it with the answers of a coordinator.
// Limits: kRowsMax workers, and as many shards and events. Texts are printable lines.
// Fails:  never: fields that an answer lacks, or that are of another kind, stay empty.
// Why:    a coordinator may be of another version, and no answer is trusted.
#pragma once

#include <nlohmann/json.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/view/series.h"

namespace capstan::cli {

struct JobFigures {
  std::optional<std::uint64_t> step, steps;
  std::optional<double> loss, validation_loss, learning_rate, grad_norm, samples_per_second, step_seconds, seconds_left;
};

struct JobModel {
  static constexpr std::size_t kRowsMax = 256;

  struct Worker {
    std::string name, state, slots, last_heard;
    std::optional<std::uint64_t> step;
    std::optional<double> lag;  // steps behind the job
    std::string time{};         // what takes its time, such as "80 % compute, 15 % exchange"; empty: not known
  };
  struct Shard {
    std::string name, state, address;
    std::optional<double> busy;  // the share of its time that it works, from 0 to 1
  };
  struct Event {
    std::string when;  // time of day
    std::optional<std::uint64_t> step;
    std::string text;
  };
  struct Snapshot {
    std::uint64_t version = 0;
    double age_seconds = 0;
  };

  std::string job, source, state;  // source: the run directory or the address
  std::string waiting, failure;    // why it waits, or has failed; empty: it does not
  std::string bound_by;            // a sentence; empty: not known
  std::string notice;              // about the connection to the job; empty: it answers
  std::vector<std::string> aside;  // workers that are set aside, with the reason
  JobFigures figures;
  std::vector<Worker> workers;
  std::vector<Shard> shards;
  std::uint64_t worker_count = 0, shard_count = 0;  // those that are not listed too
  std::optional<Snapshot> snapshot;                 // the newest
  Series loss;
  std::vector<Event> events;  // oldest first
};

// Takes the answer of /api/v1/status.
void TakeStatus(const nlohmann::json& status, JobModel* model);
// Takes the answer of /api/v1/history.
void TakeHistory(const nlohmann::json& history, JobModel* model);
// Empties all that TakeStatus fills, but the job's name.
void ForgetStatus(JobModel* model);

}  // namespace capstan::cli
