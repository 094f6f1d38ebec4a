// FormGroup: connects the workers of one generation, and brings all of them to the version that it begins with.
//
// Fails:  kStale when the generation is over; kTimeout, kUnreachable naming workers that are missing; kCorrupt when
//         nobody has the version any more.
// Why:    a group lives as long as its generation. Who joins or comes back gets the version from a member that has it;
//         where none has, one reads it from the shards for all.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "worker/allreduce/replica.h"
#include "worker/collective/collective_thread.h"

namespace capstan {
struct GroupMember;
}  // namespace capstan

namespace capstan::train {

struct GroupOptions {
  std::vector<GroupMember> members;  // by rank; without addresses
  int rank = 0;
  std::string host;  // of this machine, as the others reach it
  Encoding wire = Encoding::kFp32;
  std::chrono::milliseconds silence = std::chrono::seconds(10);  // after which a member is lost
  std::size_t buckets = 1;                                       // reduced at a time at most
  Version version;                                               // that the generation begins with
  bool has_version = false;                                      // this worker's replica is that one
  bool shards_have_it = false;                                   // so that a member can read it
  // Offers this worker's address and waits for everybody's, by rank.
  std::function<Result<std::vector<std::string>>(std::string address, collective::Deadline deadline)> exchange;
  std::function<Status(collective::Deadline deadline)> read;  // the version from the shards, into the replica
  std::function<Status()> look_up = [] { return Status(); };  // not ok: the generation is over, or the job
};

// How long a version of so many bytes may take to reach all members.
std::chrono::seconds ShareMax(std::size_t bytes);

Result<std::unique_ptr<collective::CollectiveThread>> FormGroup(const GroupOptions& options, Replica* replica);

}  // namespace capstan::train
