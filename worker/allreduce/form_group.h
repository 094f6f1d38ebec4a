// FormGroup: connects the workers of one generation, and gives all of them the version that it begins with.
//
// Fails:  kStale when the generation is over; kTimeout and kUnreachable that name missing workers; kCorrupt when no
//         worker has the version any more.
// Why:    a group lives as long as its generation. A worker that joins or comes back gets the version from a member
//         that has it. If no member has it, one reads it from the shards for all.
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
  std::string host;  // this machine's address, as the others reach it
  Encoding wire = Encoding::kFp32;
  std::chrono::milliseconds silence = std::chrono::seconds(10);  // a member silent for this long is lost
  std::size_t buckets = 1;                                       // most buckets in flight
  Version version;                                               // the version that the generation begins with
  bool has_version = false;                                      // this worker's replica has that version
  bool shards_have_it = false;                                   // the shards have it, so a member can read it
  // Offers this worker's address and waits for all members' addresses; returns them by rank.
  std::function<Result<std::vector<std::string>>(std::string address, collective::Deadline deadline)> exchange;
  std::function<Status(collective::Deadline deadline)> read;  // reads the version from the shards into the replica
  std::function<Status()> look_up = [] { return Status(); };  // not OK: the generation or the job is over
};

// The time limit for sending a version of so many bytes to all members.
std::chrono::seconds ShareMax(std::size_t bytes);

Result<std::unique_ptr<collective::CollectiveThread>> FormGroup(const GroupOptions& options, Replica* replica);

}  // namespace capstan::train
