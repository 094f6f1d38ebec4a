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

struct ResetBad {  // the shard cannot serve the snapshot of the Reset
  ShardIndex shard = 0;
  Incarnation incarnation;
  Generation generation;
  std::string reason;
};

struct Progress {  // modes without global steps: the shard's clocks, and the oldest reports of its home slots
  ShardIndex shard = 0;
  Incarnation incarnation;
  Generation generation;
  std::vector<SequenceNumber> clocks;  // per slot: newest push applied to all of this shard's blocks
  using Entry = StepReport;
  std::vector<Entry> reports;  // the oldest reports, repeated until a ClockUpdate passes them
  // A message has at most this many reports, or as many as the shard has home slots if those are more: all reports of
  // one step fit. If there are fewer, the shard has no others.
  static constexpr std::size_t kReportsMax = 1024;
};

}  // namespace capstan
