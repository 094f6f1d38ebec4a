// SetAside: workers that take part no more, because what they sent contradicts a worker that joined before them.
//
// Kind:   a value; part of a Membership. Volatile: a restarted coordinator learns of a contradiction when it happens
//         again.
// Limits: the newest kMax workers are remembered. Steps are given up at most kGivenUpMax times.
// Why:    the first worker's data is the job's data, as its tensors are the job's tensors. One worker with other data
//         ends with a text that says so, and the job goes on without it. If two contradict one, nobody knows whose word
//         is the job's, and the job ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "common/base/types.h"
#include "common/keys/key_pair.h"

namespace capstan::server {

struct Worker;

class SetAside {
 public:
  static constexpr std::size_t kMax = 256;
  static constexpr std::uint32_t kGivenUpMax = 16;

  struct Case {
    std::string worker, other;  // names; `worker` was set aside because it contradicts `other`
    std::string why;
    std::optional<PublicKey> key = {};  // of `worker`
  };

  void Add(Case added);
  // Returns why a worker of this name is set aside; null if it is not.
  const std::string* Find(const std::string& worker) const;
  // Returns a worker besides this one, and with another key, that was set aside because it contradicts `other`; null if
  // there is none.
  const std::string* FindAnother(const Worker& worker, const std::string& other) const;
  // Oldest first.
  const std::deque<Case>& cases() const { return cases_; }

  // Notes that gradients of such a worker may be in this step.
  void NoteStep(Generation generation, Step step) { in_ = In{generation, step}; }
  bool MayBeIn(Generation generation, Step step) const { return in_ && *in_ == In{generation, step}; }
  // Notes that a step is given up and done again. Returns whether that may be.
  bool GiveUp() { return ++given_up_ <= kGivenUpMax; }

 private:
  struct In {
    Generation generation;
    Step step;
    bool operator==(const In&) const = default;
  };
  std::deque<Case> cases_;
  std::optional<In> in_;
  std::uint32_t given_up_ = 0;
};

}  // namespace capstan::server
