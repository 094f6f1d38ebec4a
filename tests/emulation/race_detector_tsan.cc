#include <sanitizer/tsan_interface.h>

#include "tests/emulation/race_detector.h"

namespace capstan::emulation {

bool DetectsRaces() { return true; }
void* RunningIdentity() { return __tsan_get_current_fiber(); }
void* NewIdentity() { return __tsan_create_fiber(0); }
void DeleteIdentity(void* identity) { __tsan_destroy_fiber(identity); }
void RunAs(void* identity) { __tsan_switch_to_fiber(identity, __tsan_switch_to_fiber_no_sync); }
void Publish(void* place) { __tsan_release(place); }
void See(void* place) { __tsan_acquire(place); }

}  // namespace capstan::emulation
