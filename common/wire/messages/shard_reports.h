// Messages of a shard to the coordinator; see also hello.h, prepared.h and snapshot_done.h.
//
// Kind:   values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/types.h"
#include "common/wire/messages/slot_report.h"

namespace capstan {

struct Committed {
  ShardIndex shard = 0;
  Incarnation incarnation;
  Generation generation;
  Step step;
};

struct ResetDone {
  ShardIndex shard = 0;
  Incarnation incarnation;
  Generation generation;
};

struct ResetBad {  // the snapshot asked for cannot be served
  ShardIndex shard = 0;
  Incarnation incarnation;
  Generation generation;
  std::string reason;
};

struct Progress {  // modes without global steps: clocks and the oldest reports of this shard's home slots
  ShardIndex shard = 0;
  Incarnation incarnation;
  Generation generation;
  std::vector<std::uint64_t> clocks;  // per slot: pushes applied on all of this shard's blocks
  using Entry = StepReport;
  std::vector<Entry> reports;  // the oldest, repeated until the coordinator's Rates pass them
  // So many of them at most, but always those of one step. Where there are fewer, the shard has no others.
  static constexpr std::size_t kReportsMax = 1024;
};

}  // namespace capstan
