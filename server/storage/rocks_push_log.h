// RocksPushLog: a shard's push log in a separate database, <folder of the shard>/pushes.
//
// Kind:   a function; Open returns a PushLog (push_log.h).
// Limits: a segment of kSegmentBytes is one column family, and is dropped as a whole.
// Fails:  Open: kUnreachable, kBusy, kUnsupported. A damaged log opens: then Begin makes a new log, and every other
//         call returns the damage.
// Why:    one synchronous write stores all records of an Append, and trimming needs no compaction. A torn tail is cut
//         off; a bad record before good ones is an error.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "server/storage/push_log.h"

namespace capstan::server {

// The log's folder within a shard's folder.
inline constexpr char kPushLogFolder[] = "/pushes";

class RocksPushLog {
 public:
  static constexpr std::uint64_t kSegmentBytes = std::uint64_t{64} << 20;

  // `folder`: the shard's folder, which this process has locked.
  static Result<std::unique_ptr<PushLog>> Open(const std::string& folder, std::uint64_t segment_bytes = kSegmentBytes);
};

}  // namespace capstan::server
