// ExternalProgram: the program of a simulated worker that runs its own optimizer, with a momentum and a count of steps.
//
// Kind:   owned by a SimWorker.
// Why:    it makes each version as a user's program does, from what the session's rounds bring. All programs of a job
//         must make the same versions, whatever was lost.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/data/catalog.h"
#include "tests/sim/mutants.h"
#include "worker/client/program_version.h"
#include "worker/session/session.h"

namespace capstan::sim {

class ExternalProgram {
 public:
  // Called with each version that the program has made: its weights, and its state.
  using Made = std::function<void(Version, const std::vector<float>& weights, const std::string& state)>;

  // `catalog` outlives this. `arrays`: as optimizer.states in the job file.
  ExternalProgram(const Catalog& catalog, std::uint32_t arrays, Flaw flaw, Made made);

  // Takes an array of a block that the session has pulled.
  void TakeBlock(const session::Session::WeightsArrived& arrived);
  // Makes the round's version. Returns what is wrong with what the shards gave; empty: nothing.
  std::string MakeVersion(const session::RoundWork& work);
  client::ProgramVersion::Parts Give() { return kept_.Give(weights_.data(), State()).value(); }

  const std::vector<float>& weights() const { return weights_; }

 private:
  std::string State() const;
  void Step();

  const Catalog& catalog_;
  const Flaw flaw_;
  const Made made_;
  client::ProgramVersion kept_;
  std::vector<float> pulled_;  // the weights or the mean gradient that the session has pulled
  std::string head_;
  std::vector<float> weights_, momentum_;
  std::uint64_t steps_ = 0;
};

}  // namespace capstan::sim
