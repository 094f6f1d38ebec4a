// Tells ThreadSanitizer about fibers: which one runs, and what orders their memory accesses.
//
// Kind: functions; without ThreadSanitizer they do nothing (race_detector_none.cc).
#pragma once

namespace capstan::emulation {

// Whether each thread of a block must keep to one fiber, so that accesses are attributed to that thread.
bool DetectsRaces();

void* RunningIdentity();
void* NewIdentity();
void DeleteIdentity(void* identity);
// Tells which fiber runs next. Call it immediately before the switch.
void RunAs(void* identity);

// Everything before a Publish at `place` is visible to a thread that later calls See there.
void Publish(void* place);
void See(void* place);

}  // namespace capstan::emulation
