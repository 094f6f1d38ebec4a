// RocksPushLog: a shard's log in a database of its own, <folder of the shard>/pushes.
//
// Kind:   a function; what Open returns is a PushLog (push_log.h).
// Limits: a segment of kSegmentBytes is one column family, and is dropped as a whole.
// Fails:  Open: kUnreachable. A log that is damaged opens: Read says so, and Begin begins it anew.
// Why:    one synchronous write for all records that have gathered; what was trimmed costs no compaction. A torn
//         tail is cut; a bad record that good ones follow is never passed over.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "server/storage/push_log.h"

namespace capstan::server {

// In a shard's folder.
inline constexpr char kPushLogFolder[] = "/pushes";

class RocksPushLog {
 public:
  static constexpr std::uint64_t kSegmentBytes = std::uint64_t{64} << 20;

  // `folder`: the shard's, which this process has for itself.
  static Result<std::unique_ptr<PushLog>> Open(const std::string& folder, std::uint64_t segment_bytes = kSegmentBytes);
};

}  // namespace capstan::server
