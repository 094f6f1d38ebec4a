// ReadableVersions: what a job's mode means for a reader of its versions.
//
// Kind:   a value; ReadableIn is the one place of the reader that knows the modes.
#pragma once

#include "common/config/job/mode.h"

namespace capstan::client {

struct ReadableVersions {
  bool next_can_be_awaited = true;  // a pull of the version after the newest waits at the shards until it is published
  bool last_is_marked = true;       // shards mark the job's last version, and that one is complete
  bool pass_with_steps = true;      // a shard that no longer has a version has a later one soon; false: after an upload
};

inline ReadableVersions ReadableIn(Mode mode) {
  if (WorkersUpdate(mode)) return {.next_can_be_awaited = false, .pass_with_steps = false};
  if (!HasGlobalSteps(mode)) return {.next_can_be_awaited = false, .last_is_marked = false};
  return {};
}

}  // namespace capstan::client
