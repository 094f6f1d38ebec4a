// VersionKeeper: which worker uploads the job's present version to the shards, in a job whose optimizer stays in the
// program.
//
// Kind:   a value; part of a Job with optimizer kind "external".
// Limits: one worker uploads a whole version.
// Why:    all workers have the same weights, so one of them is enough, and the states of two are never mixed. If the
//         worker is lost, the next one uploads the version again. If no worker has the version, and one waits for it
//         for a lease, the job goes back to the newest snapshot.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "common/base/types.h"
#include "common/wire/actor.h"

namespace capstan::server {

class Membership;

class VersionKeeper {
 public:
  struct Report {
    Generation generation;  // of the session
    bool has = false;       // the program has the version of the step, or makes it of the newest gradient
    bool loads = false;     // it waits for a version from the shards
    bool operator==(const Report&) const = default;
  };

  // Takes what a worker's Heartbeat says of its program's version. Returns whether that is news.
  bool Take(SessionId session, Report report);
  // Whether a member waits for a version from the shards. The step under way is not decided meanwhile: the version
  // would be gone before the worker has it.
  bool AnyLoads(const Membership& members, Generation generation) const;
  // Names the members that wait for a version from the shards.
  std::string Loading(const Membership& members, Generation generation) const;

  // Chooses the worker that uploads: the first one, in the order of joining, that has the version; none if it is not
  // `wanted`. Returns whether another worker than before is chosen, or none any more.
  bool Choose(const Membership& members, Generation generation, bool wanted);
  bool Is(SessionId session) const { return keeper_ == session; }

  // Notes whether a version that only workers have is waited for, and none has it. Returns whether this has lasted for
  // `lease`.
  bool IsLost(const Membership& members, Generation generation, Instant now, Instant lease);
  void ForgetLoss() { none_has_since_.reset(); }

 private:
  Report Of(SessionId session, Generation generation) const;

  std::map<SessionId, Report> reports_;  // of members, and of at most as many that have left
  std::optional<SessionId> keeper_;
  std::optional<Instant> none_has_since_;
};

}  // namespace capstan::server
