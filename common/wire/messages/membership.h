// Messages of a worker to the coordinator. view.h has the coordinator's messages to a worker.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/types.h"
#include "common/data/catalog.h"
#include "common/wire/messages/group_state.h"

namespace capstan {

struct Join {
  JobId job;                              // null at the first Join
  std::string worker;                     // name; a newer Join with the same name takes over
  std::uint64_t nonce = 0;                // random number of one start of the process
  std::string numeric_class;              // build, machine kind, libraries: everything that bits depend on
  std::uint64_t numeric_fingerprint = 0;  // hash of the results of a fixed probe of every kernel
  std::uint64_t data_fingerprint = 0;
  std::vector<TensorSpec> catalog;  // empty until the worker has the job file and its model
  std::uint32_t rank = 0;           // 0: any slots; r: only slot r - 1, which no other worker gets
  std::uint32_t ranks = 0;          // number of ranks, if `rank` is not 0
  std::string machine;              // name of its machine; empty: it does not reduce with other workers of its machine
  std::string metrics;              // host:port or https://host:port of its metrics; empty: none
};

// How a worker has spent its time since it began, in microseconds. Each number only grows.
struct TimeSpent {
  std::uint64_t all_us = 0;
  std::uint64_t input_us = 0;     // it read and prepared samples; 0 if the program does not measure this
  std::uint64_t exchange_us = 0;  // it waited for weights, or for sums of gradients, within a step
  std::uint64_t commit_us = 0;    // it waited for its next step
};

struct Heartbeat {
  SessionId session;
  std::uint64_t nonce = 0;
  Generation generation;
  Step step;
  bool computing = false;                // false: all its work of `step` is staged, and it waits for others
  std::uint64_t view_sequence = 0;       // the newest View it has received
  std::vector<ShardIndex> missing;       // shards that do not answer
  std::uint64_t barrier = 0;             // the barrier that it waits in; 0: none
  GroupState group = GroupState::kNone;  // state of the group of `generation` (allreduce) or of `group_epoch` (sync)
  std::string group_text;                // kOffered, kFormed: its address; kBroken, kLost: the reason
  std::uint64_t group_epoch = 0;
  TimeSpent spent;  // all 0: unknown
  // external: whether the program has the weights of the session's version, or can make them of the next gradient.
  bool has_version = false;
  bool loads = false;  // external: it has not, and waits for a version that the shards have
};

struct Leave {
  SessionId session;
  std::uint64_t nonce = 0;
  std::string reason;
};

}  // namespace capstan
