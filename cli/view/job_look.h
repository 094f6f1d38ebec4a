// LookAtJob: finds out the state of a job, from its coordinator if that answers, otherwise from its run directory.
//
// Kind:   function; waits for the coordinator's answer, up to HttpGet's limit.
// Fails:  never: one of the answers is that the job cannot be read.
#pragma once

#include <nlohmann/json.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "cli/view/job_target.h"
#include "common/base/status.h"

namespace capstan::cli {

struct JobLook {
  // kAnswers: `status` has the coordinator's answer. kStarting: a process has the run directory, and no coordinator has
  // an address yet. kSilent: the coordinator does not answer. kAtRest: no process has the run directory. kUnreadable:
  // a file of the run, or the token, cannot be used.
  enum class Kind { kAnswers, kStarting, kSilent, kAtRest, kUnreadable };

  Kind kind = Kind::kUnreadable;
  int process = 0;                          // the process that has the run directory; 0: none, or not known
  std::string address;                      // of the coordinator's pages
  MetricsSection pages;                     // the token and certificate to read them with
  nlohmann::json status;                    // the object of /api/v1/status
  std::string text;                         // a sentence for people, for all kinds but kAnswers
  std::optional<std::uint64_t> done_steps;  // kAtRest: the steps of a job that is done

  // Returns the URL of the coordinator's page; empty if there is none.
  std::string Url() const;
};

// Returns a word for `kind`, such as "not running".
std::string WordOf(const JobLook& look);

// `goes_on`: as for HttpGet.
JobLook LookAtJob(
    const JobTarget& target, const std::function<bool()>& goes_on = [] { return true; });

// Describes a run that no process has: whether it is done, or how to go on with it.
JobLook LookAtRest(const std::string& run_dir);

}  // namespace capstan::cli
