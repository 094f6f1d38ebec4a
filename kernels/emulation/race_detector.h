// What ThreadSanitizer is told of fibers: which one runs, and what orders their accesses to memory.
//
// Kind: functions; those of race_detector_none.cc, where there is no ThreadSanitizer, do nothing.
#pragma once

namespace capstan::emulation {

// Whether each thread of a block must keep to one fiber, whose accesses are its own.
bool DetectsRaces();

void* RunningIdentity();
void* NewIdentity();
void DeleteIdentity(void* identity);
// To be called at once before the switch.
void RunAs(void* identity);

// What happens before a Publish at `place` is seen by who calls See there afterwards.
void Publish(void* place);
void See(void* place);

}  // namespace capstan::emulation
