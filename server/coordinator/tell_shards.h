// TellShards: brings the shards' lists of live sessions up to date with the members of a job.
//
// Kind:   function of a Job.
#pragma once

#include <cstdint>

#include "common/wire/actor.h"

namespace capstan::server {

struct Job;

// kNow: sends all changes. kBeforeView: sends them unless much was done for this since the last Tick, because many
// workers may join at once; then they wait for the next Tick.
enum class TellWhen : std::uint8_t { kNow, kBeforeView };

// Returns whether the shards were sent all changes.
bool TellShards(Job* job, TellWhen when, Outbox* out);

}  // namespace capstan::server
