// Messages of a worker to the coordinator; it answers with a View.
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
  JobId job;                              // null on the first join
  std::string worker;                     // name; a newer join under the same name takes over
  std::uint64_t nonce = 0;                // one life of the process
  std::string numeric_class;              // build, machine kind, libraries: what bits depend on
  std::uint64_t numeric_fingerprint = 0;  // of a fixed probe of every kernel
  std::uint64_t data_fingerprint = 0;
  std::vector<TensorSpec> catalog;  // empty until the worker has the job file and has built its model
  std::uint32_t rank = 0;           // 0: takes any slots; r: slot r - 1, which nobody else is given
  std::uint32_t ranks = 0;          // with a rank: how many there are
  std::string machine;              // that it runs on; empty: it does not reduce with its neighbours
  std::string metrics;              // host:port where it serves them; empty: it serves none
};

struct Beat {
  SessionId session;
  std::uint64_t nonce = 0;
  Generation generation;
  Step step;
  bool computing = false;                // false: all it has of `step` is staged, it waits for others
  std::uint64_t view_sequence = 0;       // the newest view held
  std::vector<ShardIndex> missing;       // shards that do not answer
  std::uint64_t barrier = 0;             // the one it waits for; 0: none
  GroupState group = GroupState::kNone;  // allreduce: of `generation`; sync: of `group_epoch`
  std::string group_text;                // kOffered, kFormed: its address; kBroken, kLost: why
  std::uint64_t group_epoch = 0;
};

struct Leave {
  SessionId session;
  std::uint64_t nonce = 0;
  std::string reason;
};

}  // namespace capstan
