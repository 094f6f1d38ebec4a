// SnapshotSection: section [snapshot] of the job file.
//
// Kind:   values.
#pragma once

#include <cstdint>

namespace capstan {

// When snapshots are taken. If every_steps and every_seconds are both 0, none are taken, except one of initial weights
// that a worker has sent.
struct SnapshotSection {
  std::uint64_t every_steps = 0;  // 0: not by steps
  double every_seconds = 60;      // since the last one; 0: not by time
  std::uint32_t keep = 2;         // number of newest snapshots that are kept; at least 2
  bool operator==(const SnapshotSection&) const = default;

  bool enabled() const { return every_steps > 0 || every_seconds > 0; }
};

}  // namespace capstan
