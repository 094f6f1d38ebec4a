// Checks of a job's coordinator: whether this machine reaches it, is let in, and has the same time.
//
// Kind:   AskCoordinator talks to the coordinator for at most kCoordinatorTime; the checks are pure functions.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/doctor/finding.h"
#include "common/base/types.h"
#include "common/keys/key_pair.h"

namespace capstan::cli {

inline constexpr std::chrono::seconds kCoordinatorTime{6};

struct CoordinatorFacts {
  std::string address;
  std::string key_file, role;  // role: as the key file names it; both are empty without a key
  std::string problem;         // why there is no answer; empty: there is one
  std::string exposure;        // what an address without keys means; empty: nothing
  std::string job;             // the job's name
  std::uint64_t step = 0, steps = 0;
  double answer_seconds = 0;           // from the question to the answer
  std::optional<double> skew_seconds;  // how far the coordinator's clock is ahead; nullopt: it did not say
};

// `key_file`: with the key to show; empty: none.
CoordinatorFacts AskCoordinator(const std::string& address, const std::string& key_file);
Finding CheckCoordinator(const CoordinatorFacts& facts);
// Compares the clocks; call it only if there is an answer.
Finding CheckSkew(const CoordinatorFacts& facts);

}  // namespace capstan::cli
