// RunPushPullWorker: a worker without computation: in each round it pushes the same gradient and pulls the new weights,
// through the public client library.
// Kind:   the body of a ChildProcess.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/child_process.h"

namespace capstan::bench {

struct PushPullLoad {
  std::size_t tensor_bytes = 0;
  std::size_t tensors = 1;
  int warmup_rounds = 3;
  double seconds = 1.0;

  std::size_t model_bytes() const { return tensor_bytes * tensors; }
};

// Measurements of one worker.
struct PushPullTimes {
  std::uint64_t rounds = 0;  // each pushes the model once and pulls it once
  double seconds = 0.0;
  double round_p50 = 0.0, round_p99 = 0.0;  // in seconds

  std::string ToLine() const;
  static PushPullTimes FromLine(const std::string& line);
};

// Sends "ready" after the warm-up, measures rounds from the parent's next line on, and answers with a PushPullTimes.
// Then it goes on with rounds until it is killed, so that no other worker is timed on an idle machine.
// `key_file`: with the worker's key; empty: the job has no keys.
Status RunPushPullWorker(Channel& parent, const std::string& coordinator, const std::string& key_file,
                         const std::string& name, const PushPullLoad& load);

}  // namespace capstan::bench
