// Tells ThreadSanitizer about fibers: which one runs, and what orders their memory accesses.
//
// Kind: functions; without ThreadSanitizer they do nothing (race_detector_none.cc).
#pragma once

namespace capstan::emulation {

// Whether each thread of a block needs a fiber of its own, so that memory accesses are attributed to that thread.
bool DetectsRaces();

void* RunningIdentity();
void* NewIdentity();
void DeleteIdentity(void* identity);
// Tells ThreadSanitizer which fiber runs next. Call it immediately before the switch.
void RunAs(void* identity);

// For ThreadSanitizer, everything before Publish(place) happens before whatever follows a later See(place).
void Publish(void* place);
void See(void* place);

}  // namespace capstan::emulation
