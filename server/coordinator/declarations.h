// Declare, DeclarationsOf: what the workers of a job declare of it, until the job has taken the declaration of enough of
// them for its own.
//
// Kind:   functions of a Membership. Each worker keeps what it declares (Worker::declared); workers that declare the same
//         share one record.
// Limits: kDifferentMax different declarations. One more takes the place of one that a single worker has made, and that
//         is a lease old; otherwise its worker has to wait.
// Why:    anybody can join, and the job's declaration is logged for good. So no single process decides on it in a job of
//         several workers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/types.h"
#include "server/storage/coordinator_log.h"

namespace capstan {
struct Join;
}  // namespace capstan

namespace capstan::server {

class Membership;
struct Worker;

inline constexpr std::size_t kDifferentMax = 8;

struct Declaration {
  std::shared_ptr<const CatalogRecord> record;
  bool ranked = false;                 // whether these workers have ranks
  std::vector<const Worker*> workers;  // the members that declare it, in order of their sessions
};

// Lists the different declarations, the most common one first.
std::vector<Declaration> DeclarationsOf(const Membership& members);
// Returns the record of what this worker declares; null: it has to wait. May remove another worker to make room.
std::shared_ptr<const CatalogRecord> Declare(const Join& join, Instant now, Instant lease, Membership* members);
// Says how another declaration differs from that of the job or of its other workers; empty: it does not.
std::string DifferenceOf(const CatalogRecord& theirs, const CatalogRecord& job);
CatalogRecord RecordOf(const Join& join);
// Names workers that declare different things, such as: "x" declares another job than "w0" and 1 other worker (...);
// empty: all agree.
std::string DisagreementText(const Membership& members);

}  // namespace capstan::server
