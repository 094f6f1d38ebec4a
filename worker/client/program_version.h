// ProgramVersion: a version of a job whose optimizer stays in the program, as the program gives it and gets it: its
// weights, and its state as one string of bytes.
//
// Kind:   owned by a client, in the application's thread.
// Limits: a state of at most bytes_max() bytes.
// Fails:  kInvalid: a state that is too long. kCorrupt: weights and state that do not belong together.
// Why:    an optimizer's state has any form. So the shards keep bytes: the first ones with the program's state of the
//         step (StepParameters::program_state), the rest in arrays of the weights' size. A hash of weights and state
//         goes with them, because the parts may come from two workers whose programs differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/buffer.h"
#include "common/base/status.h"

namespace capstan::client {

class ProgramVersion {
 public:
  // `elements`: of the weights. `arrays`: as optimizer.states in the job file.
  ProgramVersion(std::uint64_t elements, std::uint32_t arrays);

  std::uint64_t bytes_max() const;
  // Flat arrays of `elements` floats, into which the session writes the rest of a state.
  std::vector<float*> places() const;

  // Puts the version together that came from the shards. `head`: the program's state of the step; empty if no program
  // has given one, as for version 0. The state is then state().
  Status Take(const float* weights, std::string_view head);
  bool settled = false;  // of the owner: the round's version was taken, given or declined

  // The state that came with the newest whole version; empty: none was given yet.
  const std::string& state() const { return state_; }
  void Forget() { state_.clear(); }

  // What is uploaded of a version.
  struct Parts {
    std::vector<Slice> arrays;  // the weights, and the rest of the state
    std::string head;
  };
  Result<Parts> Give(const float* weights, std::string_view state);

 private:
  std::uint64_t array_bytes() const { return elements_ * sizeof(float); }
  std::uint64_t HashOf(const float* weights, std::string_view state) const;

  std::uint64_t elements_;
  BufferPool pool_;
  std::vector<BufferRef> arrays_;
  std::string state_;
};

}  // namespace capstan::client
