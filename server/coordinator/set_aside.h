// SetAside: processes that take part no more, because what they sent contradicts a worker that joined before them.
//
// Kind:   a value; part of a Job. Volatile: a restarted coordinator learns of a contradiction when it happens again.
// Limits: the newest kMax processes are remembered.
// Why:    the first worker's data is the job's data, as its tensors are the job's tensors. A worker with other data ends
//         with a text that says so; the job goes on without it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "common/base/types.h"

namespace capstan::server {

class SetAside {
 public:
  static constexpr std::size_t kMax = 256;

  struct Process {
    std::string worker;
    std::uint64_t nonce = 0;
    std::string why;
  };

  void Add(Process process);
  // Returns why the process with this nonce is set aside; null if it is not.
  const std::string* Find(std::uint64_t nonce) const;
  // Oldest first.
  const std::deque<Process>& processes() const { return processes_; }

  // Notes that gradients of such a process may be in this step.
  void NoteStep(Generation generation, Step step) { in_ = In{generation, step}; }
  bool MayBeIn(Generation generation, Step step) const { return in_ && *in_ == In{generation, step}; }

 private:
  struct In {
    Generation generation;
    Step step;
    bool operator==(const In&) const = default;
  };
  std::deque<Process> processes_;
  std::optional<In> in_;
};

}  // namespace capstan::server
