// VersionKeeper: which worker uploads the job's present version to the shards, in a job whose optimizer stays in the
// program.
//
// Kind:   a value; part of a Job with optimizer kind "external".
// Limits: one worker uploads a whole version.
// Why:    all workers have the same weights, so one of them is enough, and the states of two are never mixed. If the
//         worker is lost, the next one uploads the version again. If no worker has the version, and one waits for it
//         for a lease, the job goes back to the newest snapshot.
#pragma once

#include <optional>
#include <string>

#include "common/base/types.h"
#include "common/wire/actor.h"

namespace capstan::server {

class Membership;
struct Worker;

class VersionKeeper {
 public:
  // Whether the program of this worker has the version of the step under way, or makes it of the newest gradient.
  static bool Has(const Worker& worker, Generation generation);
  // Whether a worker waits for a version from the shards. The step under way is not decided meanwhile: the version
  // would be gone before the worker has it.
  static bool AnyLoads(const Membership& members, Generation generation);
  // Names the workers that wait for a version from the shards.
  static std::string Loading(const Membership& members, Generation generation);

  // Chooses the worker that uploads: the first one, in the order of joining, that has the version; none if it is not
  // `wanted`. Returns whether another worker than before is chosen, or none any more.
  bool Choose(const Membership& members, Generation generation, bool wanted);
  bool Is(SessionId session) const { return keeper_ == session; }

  // Notes whether a version that only workers have is waited for, and none has it. Returns whether this has lasted for
  // `lease`.
  bool IsLost(const Membership& members, Generation generation, Instant now, Instant lease);
  void ForgetLoss() { none_has_since_.reset(); }

 private:
  std::optional<SessionId> keeper_;
  std::optional<Instant> none_has_since_;
};

}  // namespace capstan::server
